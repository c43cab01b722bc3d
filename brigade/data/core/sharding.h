#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace brigade::data {

/// At which step of a dataset an iterator drops the elements of other shards.
enum class ShardBy {
  kFiles,  ///< `from_files`: file i belongs to shard i % count
  kHint,   ///< `Dataset::shard_hint`: element i does
};

/// One of `count` iterators over the same dataset that together return each element once. The step
/// that `by` names drops the elements of other shards; later steps work on what is left.
struct Shard {
  ShardBy by = ShardBy::kFiles;
  std::int64_t count = 1;
  std::int64_t index = 0;
  bool operator==(const Shard&) const = default;
};

/// Throws kInvalidArgument unless 0 <= index < count. `who` is the start of the message.
void check_shard(std::int64_t count, std::int64_t index, std::string_view who);

/// "the whole", or "shard 1 of 4 by files".
std::string describe(const Shard& shard);

/// The key of a random stream in `shard`, derived from `key`, that of the whole dataset. Each shard
/// has a different key, so that shards do not augment their elements in the same way. Returns `key`
/// if there is one shard only.
std::uint64_t key_in_shard(std::uint64_t key, const Shard& shard);

/// How a dataset can be divided into shards.
struct ShardingInfo {
  std::int64_t files = 0;            ///< files of its source; 0: the source does not read files
  std::uint64_t file_list_hash = 0;  ///< of the files' names and order, below their common folder
  bool has_hint = false;             ///< `shard_hint` is one of its transforms
  /// The first transform, if any, that counts elements in each shard separately, so that the shards
  /// together are not the whole dataset: "take(5)".
  std::string counting_step{};
};

}  // namespace brigade::data
