#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "brigade/checkpoint/saver.h"
#include "brigade/checkpoint/shard_writer.h"
#include "brigade/checkpoint/testing/in_memory_shard_exchange.h"
#include "brigade/checkpoint/testing/sample.h"

namespace brigade::checkpoint::testing {

/// Processes that write checkpoints together, as objects of one thread that write in the
/// background. Each has its own file system; all may access the same files.
struct WritingJob {
  explicit WritingJob(std::vector<std::shared_ptr<io::FileSystem>> files,
                      SaverOptions options = {.directory = "/run"})
      : status(std::make_shared<InMemoryShardStatus>(static_cast<int>(files.size()))) {
    options.writing = Writing::kBackground;
    saver.emplace(files[0], options, nullptr, std::make_shared<InMemoryShardExchange>(status, 0));
    for (int rank = 1; rank < status->count(); ++rank) {
      others.push_back(
          std::make_unique<ShardWriter>(files[static_cast<std::size_t>(rank)], options,
                                        std::make_shared<InMemoryShardExchange>(status, rank)));
    }
  }

  /// All processes save, the chief last: the others wait for it.
  void save(std::int64_t step, const Contents& contents) {
    for (const auto& other : others) other->save(step, contents);
    saver->save(step, contents);
  }
  /// Throws the chief's error.
  void wait() {
    saver->wait();
    for (const auto& other : others) other->wait();
  }

  std::shared_ptr<InMemoryShardStatus> status;
  std::optional<Saver> saver;
  std::vector<std::unique_ptr<ShardWriter>> others;
};

}  // namespace brigade::checkpoint::testing
