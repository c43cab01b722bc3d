#pragma once

#include <exception>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "brigade/cluster/cluster_config.h"
#include "brigade/ps/coordinator/coordinated_worker.h"

namespace brigade::ps::testing {

/// A cluster of a coordinator and two workers, as this task sees it. Nobody listens there.
inline cluster::ClusterConfig coordinated_config(const cluster::Task& task) {
  const cluster::ClusterSpec spec(std::map<std::string, std::vector<std::string>>{
      {"chief", {"127.0.0.1:1"}}, {"worker", {"127.0.0.1:2", "127.0.0.1:3"}}});
  return {.cluster = spec,
          .task = task,
          .rank = task.job == "chief" ? 0 : task.index + 1,
          .world_size = 3,
          .source = "this test"};
}

/// A CoordinatedWorker in a thread, which is cancelled at the end of this object.
class WorkerThread {
 public:
  /// Owns `worker`, which was made with `cancel`.
  WorkerThread(std::unique_ptr<CoordinatedWorker> worker, concurrency::CancelToken cancel)
      : cancel_(std::move(cancel)),
        ended_(std::async(std::launch::async,
                          [worker = std::move(worker)] { return error_of(*worker); })) {}
  ~WorkerThread() { cancel_.cancel(); }
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  void cancel() { cancel_.cancel(); }
  /// Waits for its end. Null if it has ended well.
  std::exception_ptr end() { return ended_.get(); }

 private:
  static std::exception_ptr error_of(CoordinatedWorker& worker) {
    try {
      worker.join();
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  const concurrency::CancelToken cancel_;
  std::future<std::exception_ptr> ended_;
};

}  // namespace brigade::ps::testing
