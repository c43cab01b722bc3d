#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace brigade::data {

/// At which step of a dataset a walk leaves out what belongs to other shards.
enum class ShardBy {
  kFiles,  ///< `from_files`: file i belongs to shard i % count
  kHint,   ///< `Dataset::shard_hint`: element i does
};

/// One of `count` walks over the same dataset that together see each element once. It goes down the
/// chain of transforms to the step that obeys it; the steps behind that one work on what is left.
struct Shard {
  ShardBy by = ShardBy::kFiles;
  std::int64_t count = 1;
  std::int64_t index = 0;
  bool operator==(const Shard&) const = default;
};

/// Throws kInvalidArgument unless 0 <= index < count; `who` begins the message.
void check_shard(std::int64_t count, std::int64_t index, std::string_view who);

/// "the whole", or "shard 1 of 4 by files".
std::string describe(const Shard& shard);

/// The key of a random stream of `shard`, made from that of the whole: the same for the whole,
/// another for each shard, so that shards do not augment their elements alike.
std::uint64_t key_in_shard(std::uint64_t key, const Shard& shard);

/// What a dataset says to somebody who would share it out.
struct ShardingInfo {
  std::int64_t files = 0;    ///< at its source; 0: the source is not made of files
  std::uint64_t list = 0;    ///< a hash of the files' names and order, below their common folder
  bool has_hint = false;     ///< `shard_hint` is one of its transforms
  std::string counted_by{};  ///< the first transform, if any, that counts in each shard for itself,
                             ///< so that the shards together are not the whole: "take(5)"
};

}  // namespace brigade::data
