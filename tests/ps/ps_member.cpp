// A process of a job with parameter servers whose values count the updates, for tools/ps_soak.py.
//
//   ps_member serve FOLDER           the server, or replica, that TF_CONFIG says; it ends with the
//   job ps_member async|ssp|sync FOLDER  the chief or worker that TF_CONFIG says: it trains until
//   the
//                                    job has the step in FOLDER/target
//   ps_member read-async|... FOLDER  a chief that pulls the values once
//
// FOLDER has the servers' variables in state/, and a history of each process that is not a server
// in history/. Exit codes: as the command's, and 3 for a task that was replaced.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <limits>
#include <thread>

#include "brigade/base/run_main.h"
#include "brigade/cluster/resolver.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/client/parameter_client.h"
#include "brigade/ps/server.h"
#include "brigade/ps/server_tasks.h"
#include "tests/ps/push_history.h"

namespace {

using namespace brigade;  // NOLINT: a program
using ps::history::History;
using ps::history::kIncarnations;
using ps::history::kSums;

constexpr std::chrono::milliseconds kLease{1500};
constexpr std::uint64_t kSnapshotAfterBytes = 1 << 20;  // many, so that kills meet them
constexpr std::int64_t kStaleness = 8;
constexpr int kReplaced = 3;
// So long that values travel in shared memory.
constexpr std::int64_t kConstants = 64 << 10;

ps::JobConfig job_of(const std::string& mode, int workers) {
  if (mode == "async") return {.mode = ps::UpdateMode::kAsync};
  if (mode == "ssp") return {.mode = ps::UpdateMode::kBounded, .staleness = kStaleness};
  check_argument(mode == "sync", base::str_cat("A mode is async, ssp or sync, not ", mode, "."));
  return {.mode = ps::UpdateMode::kSync,
          .sync = {.replicas_to_aggregate = workers - 1, .total_replicas = workers}};
}

std::string counts_of(int server) {
  return base::str_cat("counts-", server);
}

std::string constants_of(int server) {
  return base::str_cat("constants-", server);
}

/// What a server's values have to be whenever they are read.
at::Tensor constants() {
  return at::arange(kConstants, at::kInt);
}

at::Tensor zeros(int workers) {
  return at::zeros({workers, kIncarnations, kSums}, at::kDouble);
}

/// A worker, or the chief, with its view of the servers.
class Trainer {
 public:
  Trainer(const cluster::ClusterConfig& cluster, const std::filesystem::path& folder,
          const std::string& mode)
      : cluster_(cluster),
        folder_(folder),
        job_(job_of(mode, cluster.world_size)),
        history_(folder / "history" / base::str_cat(cluster.rank, "-", ::getpid())),
        client_(cluster.task, connections(), {.server_timeout = std::chrono::seconds(60)}) {
    check_argument(client_.incarnation() < kIncarnations,
                   base::str_cat("A task has ", kIncarnations - 1, " lives at most in this job."));
    if (!cluster_.is_chief()) {
      client_.wait_ready(placement(), job_);
      return;
    }
    std::vector<ps::Creation> variables;
    for (const ps::PlacedVariable& each : placement())
      variables.push_back({.name = each.name,
                           .value = each.is_trainable ? zeros(cluster_.world_size) : constants(),
                           .is_trainable = each.is_trainable});
    const auto rule = optim::Sgd{.learning_rate = 1}.rule();
    if (!client_.create(variables, placement(), *rule, job_)) client_.set_ready();
  }

  void train() {
    for (std::int64_t number = 1;; ++number) {
      client_.begin_step();
      if (job_.mode != ps::UpdateMode::kAsync) check(client_.pull());
      if (client_.step() >= target()) return;
      check(push(number));
    }
  }

  void read() { check(client_.pull()); }

 private:
  int servers() const { return cluster_.cluster.num_tasks("ps"); }

  std::vector<std::unique_ptr<ps::ParameterService>> connections() {
    auto services = ps::connect_to_servers(cluster_.cluster, cluster_.task, std::nullopt);
    for (int server = 0; server < servers(); ++server) {
      auto& each = services[static_cast<std::size_t>(server)];
      each = std::make_unique<ps::history::RecordedService>(std::move(each), server, cluster_.rank,
                                                            history_);
    }
    return services;
  }

  std::vector<ps::PlacedVariable> placement() const {
    std::vector<ps::PlacedVariable> placed;
    for (int server = 0; server < servers(); ++server)
      placed.push_back({.name = counts_of(server), .server = server});
    for (int server = 0; server < servers(); ++server)
      placed.push_back({.name = constants_of(server), .server = server, .is_trainable = false});
    return placed;
  }

  std::vector<at::Tensor> gradients(std::int64_t number) const {
    const auto n = static_cast<double>(number);
    at::Tensor gradient = zeros(cluster_.world_size);
    double* sums = gradient.mutable_data_ptr<double>() +
                   (cluster_.rank * kIncarnations + client_.incarnation()) * kSums;
    sums[0] = -1;
    sums[1] = -n;
    sums[2] = -n * n;
    const auto count = static_cast<std::size_t>(servers());
    std::vector<at::Tensor> gradients(count, gradient);
    gradients.resize(2 * count);  // none of the constants
    return gradients;
  }

  /// Some pushes are sent early, some of these are given up and replaced by others, and some are
  /// sent as a whole.
  ps::ParameterClient::Values push(std::int64_t number) {
    constexpr std::int64_t kGivenUp = 1'000'000;  // no server may ever have it
    const std::vector<at::Tensor> all = gradients(number);
    if (number % 4 != 0) {
      std::vector<std::size_t> expected;
      for (int server = 0; server < servers(); ++server)
        expected.push_back(static_cast<std::size_t>(server));
      const std::vector<at::Tensor> sent = number % 4 == 1 ? gradients(kGivenUp) : all;
      client_.begin_early(expected);
      for (const std::size_t variable : expected) client_.send_early(sent[variable]);
      if (number % 8 == 1) client_.drop_early();
    }
    compute();
    return client_.push(all);
  }

  void check(const ps::ParameterClient::Values& values) const {
    for (std::size_t i = static_cast<std::size_t>(servers()); i < values.values.size(); ++i)
      check_state(at::equal(values.values[i].value, constants_),
                  base::str_cat("The constants of server ", i - static_cast<std::size_t>(servers()),
                                " have changed."));
  }

  /// Takes the time of a small model, so that the processes of a job share a small machine.
  static void compute() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

  /// The step at which the job ends, once it is known.
  std::int64_t target() const {
    std::ifstream file(folder_ / "target");
    std::int64_t step = 0;
    return file >> step ? step : std::numeric_limits<std::int64_t>::max();
  }

  const cluster::ClusterConfig cluster_;
  const std::filesystem::path folder_;
  const ps::JobConfig job_;
  const at::Tensor constants_ = constants();
  History history_;
  ps::ParameterClient client_;  // uses history_
};

void serve(const cluster::ClusterConfig& cluster, const std::filesystem::path& folder) {
  ps::Server server(cluster.cluster, cluster.task.job, cluster.task.index,
                    {.folder = folder / "state",
                     .key = std::nullopt,
                     .lease = kLease,
                     .snapshot_after_bytes = kSnapshotAfterBytes});
  server.join();
}

int run(const std::string& what, const std::filesystem::path& folder) {
  constexpr std::string_view kRead = "read-";
  const cluster::ClusterConfig cluster = cluster::resolve_cluster();
  if (what == "serve") {
    serve(cluster, folder);
    return 0;
  }
  try {
    if (what.starts_with(kRead))
      Trainer(cluster, folder, what.substr(kRead.size())).read();
    else
      Trainer(cluster, folder, what).train();
    return 0;
  } catch (const ps::ReplacedError& error) {
    std::cerr << error.what() << std::endl;
    return kReplaced;
  }
}

}  // namespace

int main(int count, char** arguments) {
  return base::run_main([&] {
    check_argument(count == 3, "usage: ps_member serve|async|ssp|sync|read-MODE FOLDER");
    return run(arguments[1], arguments[2]);
  });
}
