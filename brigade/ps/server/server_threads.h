#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "brigade/concurrency/thread_pool.h"

namespace brigade::ps {

/// Does the same for each of several servers at the same time: for the first on the calling thread,
/// for each other on its own thread.
///
/// Thread-safety: one thread at a time.
class ServerThreads {
 public:
  /// Throws kInvalidArgument unless `servers` is positive, and as ThreadPool.
  explicit ServerThreads(int servers);

  /// Calls `work(server)` for each server, and returns when all calls have ended, which is theirs
  /// to limit. Throws the exception of the first server, by index, that has one.
  void run(const std::function<void(int server)>& work);

 private:
  std::vector<std::unique_ptr<concurrency::ThreadPool>> threads_;  // [server - 1]
};

}  // namespace brigade::ps
