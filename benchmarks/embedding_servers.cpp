// An embedding of a million rows on parameter servers: workers push gradients of rows and pull
// other rows, with the whole table on one server and with half of it on each of two, alternating
// within one process. A server has one thread that computes, so servers limit. Prints one JSON
// line: the time with one server over that with two.
#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/measure.h"
#include "benchmarks/pairs.h"
#include "benchmarks/scratch_folder.h"
#include "brigade/base/clock.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/optim/adam.h"
#include "brigade/ps/client/remote_service.h"
#include "brigade/ps/server/server_core.h"
#include "brigade/tuning/freed_memory.h"

namespace brigade::benchmarks {
namespace {

struct Options {
  PairOptions pairs{.pairs = 20, .steps = 10};
  std::int64_t rows = 1'000'000;
  std::int64_t dimension = 16;
  std::int64_t rows_per_step = 16'384;
  int workers = 2;
  int threads = 1;
  std::string directory = ".";
};

constexpr int kBatches = 8;
constexpr std::uint64_t kNoSnapshots = std::uint64_t{1} << 40;

std::chrono::steady_clock::time_point deadline() {
  return std::chrono::steady_clock::now() + std::chrono::minutes(1);
}

cluster::Task task_of(int worker) {
  return {.job = "worker", .index = worker};
}

/// One of the servers, which has an equal part of the table.
class Server {
 public:
  Server(const Options& options, const std::filesystem::path& folder, int index)
      : core_(io::posix_file_system(), core_options(options, folder, index), clock_),
        listener_(ps::listen(core_, {.tasks = options.workers, .threads = options.threads})) {}
  ~Server() { core_.close(); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string address() const { return listener_->address(); }

 private:
  static ps::ServerCoreOptions core_options(const Options& options,
                                            const std::filesystem::path& folder, int index) {
    ps::ServerCoreOptions core{.is_coordinator = index == 0,
                               .store = {.folder = folder / base::str_cat("ps-", index)},
                               .snapshot_after_bytes = kNoSnapshots};
    for (int worker = 0; worker < options.workers; ++worker) core.tasks.push_back(task_of(worker));
    return core;
  }

  base::SystemClock clock_;
  ps::ServerCore core_;
  std::unique_ptr<ps::ServiceListener> listener_;
};

/// A worker's connection to one server, and the ids of the rows that it needs there.
class Connection {
 public:
  Connection(const Options& options, const std::string& address, int worker, std::int64_t part_rows,
             int servers)
      : service_(ps::connect(address, std::nullopt)) {
    const std::int64_t count = options.rows_per_step / servers;
    for (int batch = 0; batch < kBatches; ++batch)
      batches_.push_back(ids(part_rows, count, worker * kBatches + batch));
    dimension_ = options.dimension;
  }

  /// Returns the incarnation.
  std::int64_t join(int worker, std::int64_t incarnation) {
    const ps::Grant grant =
        service_->join({.task = task_of(worker), .incarnation = incarnation}, deadline());
    token_ = grant.token;
    return grant.incarnation;
  }
  void create(std::int64_t part_rows) {
    service_->create(token_,
                     {.variables = {{.name = kTable, .value = at::zeros({part_rows, dimension_})}},
                      .rule = optim::Adam{.learning_rate = 1e-3}.rule()->config()},
                     deadline());
    service_->set_ready(token_, deadline());
  }

  /// Pushes the gradients of a batch's rows, and pulls the rows of the next.
  void step() {
    const at::Tensor& indices = batch(pushes_);
    ps::ExchangeRequest request{.pull_rows = {{.name = kTable, .indices = batch(pushes_ + 1)}}};
    request.push = ps::Push{.number = ++pushes_,
                            .rows = {{.name = kTable,
                                      .indices = indices,
                                      .values = at::full({indices.size(0), dimension_}, 1e-3F)}}};
    service_->exchange(token_, request, deadline());
  }

 private:
  static constexpr const char* kTable = "table";

  /// Ascending, each once.
  static at::Tensor ids(std::int64_t rows, std::int64_t count, int seed) {
    at::manual_seed(static_cast<std::uint64_t>(seed));
    std::set<std::int64_t> chosen;
    while (static_cast<std::int64_t>(chosen.size()) < count) {
      const at::Tensor more = at::randint(rows, {count}, at::kLong);
      const auto* const first = more.const_data_ptr<std::int64_t>();
      for (std::int64_t i = 0; i < count && static_cast<std::int64_t>(chosen.size()) < count; ++i)
        chosen.insert(first[i]);
    }
    at::Tensor sorted = at::zeros({count}, at::kLong);
    std::ranges::copy(chosen, sorted.mutable_data_ptr<std::int64_t>());
    return sorted;
  }
  const at::Tensor& batch(std::int64_t number) const {
    return batches_[static_cast<std::size_t>(number % kBatches)];
  }

  std::unique_ptr<ps::ParameterService> service_;
  std::string token_;
  std::vector<at::Tensor> batches_;
  std::int64_t dimension_ = 0;
  std::int64_t pushes_ = 0;
};

/// The servers and workers of a job.
class Job {
 public:
  Job(const Options& options, int servers) : folder_(options.directory) {
    const std::int64_t part_rows = options.rows / servers;
    for (int server = 0; server < servers; ++server)
      servers_.push_back(std::make_unique<Server>(options, folder_.path(), server));
    for (int worker = 0; worker < options.workers; ++worker) {
      auto& connections = workers_.emplace_back();
      std::int64_t incarnation = 0;
      for (const auto& server : servers_) {
        connections.emplace_back(options, server->address(), worker, part_rows, servers);
        incarnation = connections.back().join(worker, incarnation);
        if (worker == 0) connections.back().create(part_rows);
      }
    }
  }

  void run(int steps) {
    std::vector<std::jthread> threads;
    for (std::size_t worker = 0; worker < workers_.size(); ++worker)
      threads.emplace_back([this, worker, steps] { work(worker, steps); });
    threads.clear();
    const concurrency::MutexLock lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  /// Each worker begins with another server, so that none is idle.
  void work(std::size_t worker, int steps) {
    try {
      auto& connections = workers_[worker];
      for (int step = 0; step < steps; ++step) {
        for (std::size_t i = 0; i < connections.size(); ++i)
          connections[(worker + i) % connections.size()].step();
      }
    } catch (...) {
      const concurrency::MutexLock lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }

  ScratchFolder folder_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::vector<Connection>> workers_;
  concurrency::Mutex mutex_;
  std::exception_ptr error_ BRIGADE_GUARDED_BY(mutex_);  // the first of a worker
};

void measure(const Options& options) {
  at::set_num_threads(1);
  const Ratios ratios = compare([&] { return std::make_unique<Job>(options, 1); },
                                [&] { return std::make_unique<Job>(options, 2); }, options.pairs);
  std::cout << "{\"pairs\": " << options.pairs.pairs << ratio_fields(ratios) << "}" << std::endl;
}

}  // namespace
}  // namespace brigade::benchmarks

int main(int argc, char** argv) {
  brigade::tuning::return_freed_memory();  // as tasks with parameter servers do
  brigade::benchmarks::Options options;
  CLI::App app("Rows of an embedding on one parameter server, over the same on two");
  app.add_option("--rows", options.rows, "of the table")->check(CLI::PositiveNumber);
  app.add_option("--dimension", options.dimension, "of a row")->check(CLI::PositiveNumber);
  app.add_option("--rows-per-step", options.rows_per_step, "that a worker pushes and pulls")
      ->check(CLI::PositiveNumber);
  app.add_option("--workers", options.workers)->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "of a server that compute")
      ->check(CLI::PositiveNumber);
  app.add_option("--directory", options.directory, "where a folder for the servers' logs is made")
      ->check(CLI::ExistingDirectory);
  app.add_option("--pairs", options.pairs.pairs)->check(CLI::PositiveNumber);
  app.add_option("--steps", options.pairs.steps, "steps a block")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  if (options.rows_per_step > options.rows / 2) {
    std::cerr << "embedding_servers: --rows-per-step must be at most half of --rows\n";
    return 2;
  }
  return brigade::benchmarks::run_reporting("embedding_servers",
                                            [&] { brigade::benchmarks::measure(options); });
}
