// Pushing 13 MB of gradients to a parameter server and pulling as much, over loopback TCP or in
// shared memory, beside Gloo's collectives over TCP, copies of the same tensors, or the same
// exchange without a key and with its log elsewhere, alternating within one process. Prints one
// JSON line. The server keeps its log, as always: --directory says on which disk.
#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "benchmarks/measure.h"
#include "benchmarks/pairs.h"
#include "benchmarks/scratch_folder.h"
#include "brigade/base/clock.h"
#include "brigade/base/shared_segment.h"
#include "brigade/comm/testing/process_threads.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/client/parameter_client.h"
#include "brigade/ps/client/remote_service.h"
#include "brigade/ps/server/server_core.h"
#include "brigade/tuning/freed_memory.h"

namespace brigade::benchmarks {
namespace {

struct Options {
  PairOptions pairs{.pairs = 30, .steps = 10};
  std::string beside = "all_reduce";
  std::string directory = ".";
  std::string base_directory = ".";
  bool has_key = false;
  std::string transport = "tcp";
};

/// What the other exchange has if one is compared with another.
Options base_of(Options options) {
  options.directory = options.base_directory;
  options.has_key = false;
  options.transport = "tcp";
  return options;
}

/// Those of the MNIST CNN.
std::vector<ps::Creation> make_variables() {
  const std::vector<std::vector<std::int64_t>> shapes = {
      {32, 1, 5, 5}, {32}, {64, 32, 5, 5}, {64}, {1024, 3136}, {1024}, {10, 1024}, {10}};
  std::vector<ps::Creation> variables;
  for (const auto& shape : shapes)
    variables.push_back(
        {.name = "variable_" + std::to_string(variables.size()), .value = at::zeros(shape)});
  return variables;
}

std::int64_t number_of_elements() {
  std::int64_t count = 0;
  for (const ps::Creation& variable : make_variables()) count += variable.value.numel();
  return count;
}

std::size_t number_of_bytes() {
  return static_cast<std::size_t>(number_of_elements()) * sizeof(float);
}

/// A parameter server and its only client, in this process; they share nothing but the connection.
class Exchange {
 public:
  explicit Exchange(const Options& options)
      : folder_(options.directory),
        core_(io::posix_file_system(),
              {.tasks = {kWorker}, .store = {.folder = folder_.path() / "ps-0"}}, clock_) {
    std::optional<cluster::ClusterKey> key;
    if (options.has_key) key = cluster::ClusterKey::generate();
    const bool shared_memory = options.transport == "shared_memory";
    listener_ = ps::listen(core_, {.key = key, .shared_memory = shared_memory});
    std::vector<std::unique_ptr<ps::ParameterService>> servers;
    servers.push_back(ps::connect(listener_->address(), key, {.shared_memory = shared_memory}));
    client_ = std::make_unique<ps::ParameterClient>(kWorker, std::move(servers));
    create();
    run(kFirstSteps);
  }
  ~Exchange() {
    values_.clear();
    client_.reset();
    core_.close();
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      values_.clear();
      values_ = client_->push(gradients_).values;
    }
  }
  /// Waits until the server's log has all pushes.
  void await_log() const {
    while (core_.metrics().waiting_records > 0) std::this_thread::yield();
  }
  std::span<const at::Tensor> gradients() const { return gradients_; }
  /// Those that came last.
  std::span<const ps::Parameter::Reading> values() const { return values_; }

 private:
  // With its first snapshot, after 256 MiB, the server begins to use the files of its log again, as
  // in any training but its first steps.
  static constexpr int kFirstSteps = 50;
  inline static const cluster::Task kWorker = {.job = "worker", .index = 0};

  void create() {
    const std::vector<ps::Creation> variables = make_variables();
    std::vector<ps::PlacedVariable> placement;
    for (const ps::Creation& variable : variables) {
      placement.push_back({.name = variable.name});
      gradients_.push_back(at::full(variable.value.sizes(), 1e-3F));
    }
    client_->create(variables, placement, *optim::Sgd{.learning_rate = 1e-3}.rule(), {});
    client_->set_ready();
  }

  ScratchFolder folder_;
  base::SystemClock clock_;
  ps::ServerCore core_;
  std::unique_ptr<ps::ServiceListener> listener_;
  std::unique_ptr<ps::ParameterClient> client_;
  std::vector<at::Tensor> gradients_;
  std::vector<ps::Parameter::Reading> values_;
};

/// The same bytes in one tensor, by Gloo: an all-reduce, in which each of two ranks sends and
/// receives all of them, or broadcasts from rank 0 and then from rank 1.
class Collective {
 public:
  Collective(comm::ProcessCommunicator& communicator, std::string name)
      : communicator_(communicator),
        is_all_reduce_(name == "all_reduce"),
        tensor_(at::full({number_of_elements()}, 0.0F)) {}

  /// Rank 0: so many, with the other rank's help.
  void run(int steps) {
    tell(steps);
    make(steps);
  }
  /// Rank 0: lets the other rank end.
  void finish() { tell(0); }
  /// Rank 1: helps until rank 0 lets it end.
  void help() {
    while (const std::int64_t steps = heard()) make(steps);
  }

 private:
  void tell(std::int64_t steps) {
    count_.fill_(steps);
    communicator_.broadcast({&count_, 1}, 0)->wait();
  }
  std::int64_t heard() {
    communicator_.broadcast({&count_, 1}, 0)->wait();
    return count_.item<std::int64_t>();
  }
  void make(std::int64_t steps) {
    for (std::int64_t i = 0; i < steps; ++i) {
      if (is_all_reduce_) {
        communicator_.all_reduce({&tensor_, 1}, comm::ReduceOp::kSum)->wait();
      } else {
        for (const int root : {0, 1}) communicator_.broadcast({&tensor_, 1}, root)->wait();
      }
    }
  }

  comm::ProcessCommunicator& communicator_;
  const bool is_all_reduce_;
  at::Tensor tensor_;
  at::Tensor count_ = at::zeros({1}, at::kLong);
};

/// What no push and pull can do without: copies of the gradients into memory that a server shares,
/// and of the values into memory that the worker shares. Each time an exchange has passed over the
/// same tensors before, so that they are in a cache, or not, as for the exchange after it.
class NeededCopies {
 public:
  explicit NeededCopies(Exchange& exchange) : exchange_(exchange) {}

  /// Of the copies alone.
  Cost cost(int steps) {
    Cost sum;
    for (int i = 0; i < steps; ++i) {
      exchange_.run(1);
      exchange_.await_log();
      const Cost copies = cost_of_block(*this, 1);
      sum.wall_seconds += copies.wall_seconds;
      sum.cpu_seconds += copies.cpu_seconds;
    }
    return sum;
  }
  void run(int) {
    std::byte* end = pushed_.data();
    for (const at::Tensor& gradient : exchange_.gradients()) end = copy(gradient, end);
    end = pulled_.data();
    for (const ps::Parameter::Reading& each : exchange_.values()) end = copy(each.value, end);
  }

 private:
  static std::byte* copy(const at::Tensor& from, std::byte* to) {
    std::memcpy(to, from.const_data_ptr(), from.nbytes());
    return to + from.nbytes();
  }

  Exchange& exchange_;
  const base::SharedSegment pushed_ = base::SharedSegment::make(number_of_bytes());
  const base::SharedSegment pulled_ = base::SharedSegment::make(number_of_bytes());
};

/// Copies of as many bytes there and back, which stay in the cache if that is large enough.
class CachedCopies {
 public:
  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      std::memcpy(there_.data(), here_.data(), here_.size() * sizeof(float));
      std::memcpy(here_.data(), there_.data(), here_.size() * sizeof(float));
    }
  }

 private:
  std::vector<float> here_ = std::vector<float>(static_cast<std::size_t>(number_of_elements()));
  std::vector<float> there_ = here_;
};

/// A loop that records how long its steps take.
struct TimedLoop {
  void run(int steps) {
    const double begin = wall_seconds();
    work(steps);
    milliseconds.push_back(1e3 * (wall_seconds() - begin) / steps);
  }
  std::function<void(int steps)> work;
  std::vector<double>& milliseconds;
};

using Loop = std::function<void(int steps)>;

void print(const Ratios& ratios, const std::vector<double>& exchanges,
           const std::vector<double>& bases) {
  std::cout << "{\"pairs\": " << ratios.wall.size() << ratio_fields(ratios)
            << ", \"bytes\": " << number_of_bytes()
            << ", \"subject_milliseconds\": " << estimate(exchanges).median
            << ", \"base_milliseconds\": " << estimate(bases).median << "}" << std::endl;
}

void compare_with(const std::function<Loop()>& make_base, const Options& options) {
  std::vector<double> exchanges, bases;
  const Ratios ratios = compare(
      [&] {
        const auto exchange = std::make_shared<Exchange>(options);
        return std::make_unique<TimedLoop>(
            TimedLoop{[exchange](int steps) { exchange->run(steps); }, exchanges});
      },
      [&] {
        return std::make_unique<TimedLoop>(TimedLoop{make_base(), bases});
      },
      options.pairs);
  print(ratios, exchanges, bases);
}

void compare_with_needed_copies(const Options& options) {
  constexpr int kPairsABuild = 5;  // as `compare`
  const int steps = options.pairs.steps;
  Ratios ratios;
  std::vector<double> exchanges, bases;
  const auto noted = [steps](const Cost& cost, std::vector<double>& milliseconds) {
    milliseconds.push_back(1e3 * cost.wall_seconds / steps);
    return cost;
  };
  for (int done = 0; done < options.pairs.pairs; done += kPairsABuild) {
    Exchange exchange(options);
    NeededCopies copies(exchange);
    for (int pair = done; pair < std::min(done + kPairsABuild, options.pairs.pairs); ++pair) {
      const auto cost_of_exchanges = [&] {
        exchange.run(1);  // its log is written meanwhile, as that of each is
        return noted(cost_of_block(exchange, steps), exchanges);
      };
      const auto cost_of_copies = [&] { return noted(copies.cost(steps), bases); };
      ratios.add(cost_of_pair(pair, cost_of_exchanges, cost_of_copies));
    }
  }
  print(ratios, exchanges, bases);
}

void compare_with_gloo(const Options& options) {
  if (!comm::gloo_is_built_in()) throw std::runtime_error("Gloo is not built in");
  comm::run_processes_successfully(
      2, {.transport = comm::Transport::kGloo}, [&](comm::ProcessCommunicator& communicator) {
        at::set_num_threads(1);
        Collective collective(communicator, options.beside);
        if (communicator.rank() != 0) return collective.help();
        compare_with([&] { return Loop([&](int steps) { collective.run(steps); }); }, options);
        collective.finish();
      });
}

void measure(const Options& options) {
  at::set_num_threads(1);
  if (options.beside == "copies") return compare_with_needed_copies(options);
  if (options.beside == "cached_copies") {
    CachedCopies copies;
    return compare_with([&] { return Loop([&](int steps) { copies.run(steps); }); }, options);
  }
  if (options.beside != "exchange") return compare_with_gloo(options);
  const Options base = base_of(options);
  compare_with(
      [&] {
        const auto exchange = std::make_shared<Exchange>(base);
        return Loop([exchange](int steps) { exchange->run(steps); });
      },
      options);
}

}  // namespace
}  // namespace brigade::benchmarks

int main(int argc, char** argv) {
  brigade::tuning::return_freed_memory();  // as tasks with parameter servers do
  brigade::benchmarks::Options options;
  CLI::App app("Push and pull of 13 MB with a parameter server, beside Gloo or copies in memory");
  app.add_option("--beside", options.beside)
      ->check(CLI::IsMember({"all_reduce", "broadcasts", "copies", "cached_copies", "exchange"}));
  app.add_option("--directory", options.directory, "where a folder for the server's log is made")
      ->check(CLI::ExistingDirectory);
  app.add_option("--transport", options.transport)->check(CLI::IsMember({"tcp", "shared_memory"}));
  app.add_option("--base-directory", options.base_directory,
                 "of the exchange that --beside exchange compares with")
      ->check(CLI::ExistingDirectory);
  app.add_flag("--key", options.has_key, "client and server have a key, so they use TLS");
  app.add_option("--pairs", options.pairs.pairs)->check(CLI::PositiveNumber);
  app.add_option("--steps", options.pairs.steps, "exchanges a block")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return brigade::benchmarks::run_reporting("parameter_exchange",
                                            [&] { brigade::benchmarks::measure(options); });
}
