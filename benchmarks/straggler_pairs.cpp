// What a worker that is slower than the others costs synchronous training with parameter servers:
// blocks of steps of a job with such a worker and of one without alternate in one process. A
// worker's computation is a sleep, as of a device that computes, so that the workers do not compete
// for this machine's cores. Prints one JSON line.
#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/measure.h"
#include "benchmarks/pairs.h"
#include "benchmarks/scratch_folder.h"
#include "brigade/base/clock.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/client/parameter_client.h"
#include "brigade/ps/client/remote_service.h"
#include "brigade/ps/server/server_core.h"
#include "brigade/tuning/freed_memory.h"

namespace brigade::benchmarks {
namespace {

struct Options {
  PairOptions pairs{.pairs = 20, .steps = 10};
  int workers = 4;
  int backup_workers = 1;
  int computation_milliseconds = 20;
  int slowness = 5;
  std::string directory = ".";
};

/// A parameter server and the workers of a job, which make steps while `run` waits for them.
class Job {
 public:
  /// `slowness`: how many times as long the last worker computes.
  Job(const Options& options, int slowness)
      : options_(options), folder_(options.directory), core_(files(), core_options(), clock_) {
    listener_ = ps::listen(core_, {.tasks = options.workers});
    for (int worker = 0; worker < options.workers; ++worker) {
      const bool is_slow = worker == options.workers - 1;
      const std::chrono::milliseconds computation(options.computation_milliseconds *
                                                  (is_slow ? slowness : 1));
      threads_.emplace_back([this, worker, computation] { work(worker, computation); });
    }
  }
  ~Job() {
    {
      const concurrency::MutexLock lock(mutex_);
      is_ending_ = true;
      changed_.notify_all();
    }
    cancel_.cancel();
    threads_.clear();
    core_.close();
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void run(int steps) {
    const concurrency::MutexLock lock(mutex_);
    wanted_ += steps;
    changed_.notify_all();
    while (made_ < wanted_ && !error_) changed_.wait(mutex_);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  static std::shared_ptr<io::FileSystem> files() { return io::posix_file_system(); }
  static cluster::Task task(int worker) { return {.job = "worker", .index = worker}; }

  ps::ServerCoreOptions core_options() const {
    ps::ServerCoreOptions options{.store = {.folder = folder_.path() / "ps-0"}};
    for (int worker = 0; worker < options_.workers; ++worker) options.tasks.push_back(task(worker));
    return options;
  }

  ps::JobConfig config() const {
    return {.mode = ps::UpdateMode::kSync,
            .sync = {.replicas_to_aggregate = options_.workers - options_.backup_workers,
                     .total_replicas = options_.workers}};
  }

  void work(int worker, std::chrono::milliseconds computation) {
    try {
      std::vector<std::unique_ptr<ps::ParameterService>> servers;
      servers.push_back(ps::connect(listener_->address(), std::nullopt));
      ps::ParameterClient client(task(worker), std::move(servers), {.cancel = cancel_});
      begin(client, worker);
      const at::Tensor gradient = at::full({kElements}, 1e-3F);
      for (std::int64_t step = 0; await(step);) {
        client.begin_step();
        step = client.pull().step;
        if (worker == 0) note(step);
        if (!is_wanted(step)) continue;  // it keeps its permission for the next block
        std::this_thread::sleep_for(computation);
        client.push({&gradient, 1});
      }
    } catch (...) {
      const concurrency::MutexLock lock(mutex_);
      if (!is_ending_ && !error_) error_ = std::current_exception();
      changed_.notify_all();
    }
  }

  void begin(ps::ParameterClient& client, int worker) const {
    const ps::PlacedVariable variable{.name = "weights"};
    if (worker > 0) return client.wait_ready({&variable, 1}, config());
    const ps::Creation creation{.name = "weights", .value = at::zeros({kElements})};
    client.create({&creation, 1}, {&variable, 1}, *optim::Sgd{.learning_rate = 1e-3}.rule(),
                  config());
    client.set_ready();
  }

  /// Waits until the step after `step` is wanted. False at the end.
  bool await(std::int64_t step) {
    const concurrency::MutexLock lock(mutex_);
    while (!is_ending_ && step >= wanted_) changed_.wait(mutex_);
    return !is_ending_;
  }
  bool is_wanted(std::int64_t step) {
    const concurrency::MutexLock lock(mutex_);
    return step < wanted_;
  }
  void note(std::int64_t step) {
    const concurrency::MutexLock lock(mutex_);
    made_ = std::max(made_, step);
    changed_.notify_all();
  }

  static constexpr std::int64_t kElements = 100'000;

  const Options& options_;
  ScratchFolder folder_;
  base::SystemClock clock_;
  ps::ServerCore core_;
  std::unique_ptr<ps::ServiceListener> listener_;
  concurrency::CancelToken cancel_;
  concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  std::int64_t wanted_ BRIGADE_GUARDED_BY(mutex_) = 0;  // steps, since the start
  std::int64_t made_ BRIGADE_GUARDED_BY(mutex_) = 0;
  bool is_ending_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::exception_ptr error_ BRIGADE_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;  // the workers
};

void measure(const Options& options) {
  at::set_num_threads(1);
  const Ratios ratios = compare([&] { return std::make_unique<Job>(options, options.slowness); },
                                [&] { return std::make_unique<Job>(options, 1); }, options.pairs);
  std::cout << "{\"pairs\": " << options.pairs.pairs << ratio_fields(ratios) << "}" << std::endl;
}

}  // namespace
}  // namespace brigade::benchmarks

int main(int argc, char** argv) {
  brigade::tuning::return_freed_memory();  // as tasks with parameter servers do
  brigade::benchmarks::Options options;
  CLI::App app("Steps of synchronous training with a slow worker over steps without one");
  app.add_option("--workers", options.workers)->check(CLI::Range(2, 64));
  app.add_option("--backup-workers", options.backup_workers, "whose gradients no step waits for")
      ->check(CLI::Range(0, 63));
  app.add_option("--computation", options.computation_milliseconds, "milliseconds of a step")
      ->check(CLI::PositiveNumber);
  app.add_option("--slowness", options.slowness, "how many times as long the slow worker computes")
      ->check(CLI::PositiveNumber);
  app.add_option("--directory", options.directory, "where a folder for the server's log is made")
      ->check(CLI::ExistingDirectory);
  app.add_option("--pairs", options.pairs.pairs)->check(CLI::PositiveNumber);
  app.add_option("--steps", options.pairs.steps, "steps a block")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  if (options.backup_workers >= options.workers) {
    std::cerr << "straggler_pairs: --backup-workers must be less than --workers\n";
    return 2;
  }
  return brigade::benchmarks::run_reporting("straggler_pairs",
                                            [&] { brigade::benchmarks::measure(options); });
}
