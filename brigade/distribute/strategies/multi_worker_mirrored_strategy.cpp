#include "brigade/distribute/strategies/multi_worker_mirrored_strategy.h"

#include <ATen/Context.h>
#include <c10/core/DefaultDtype.h>
#include <torch/version.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/resolver.h"
#include "brigade/comm/worker_facts.h"

namespace brigade::distribute {

namespace {

std::vector<device::Device> choose_worker_devices(const MultiWorkerMirroredOptions& options) {
  const device::DiscoveryOptions discovery{
      .threads_per_cpu = options.threads_per_replica,
      .allow_oversubscription = options.allow_oversubscription};
  if (!options.devices.empty()) return device::resolve_devices(options.devices, discovery);
  std::vector<device::Device> gpus = device::available_gpus(discovery);
  return gpus.empty() ? device::resolve_devices({"cpu:0"}, discovery) : gpus;
}

/// The facts about a worker that must be equal in all workers.
comm::Facts worker_facts(const MultiWorkerMirroredOptions& options, bool on_cpu) {
  const std::optional<std::int64_t>& bytes = options.communication.bytes_per_pack;
  return {{"libtorch", TORCH_VERSION},
          {"seed", base::str_cat(options.seed)},
          {"devices", on_cpu ? "cpu" : "gpu"},
          {"transport", std::string(comm::to_string(options.communication.transport))},
          {"wire", base::str_cat(static_cast<int>(options.communication.wire))},
          {"bytes_per_pack", bytes ? base::str_cat(*bytes) : "auto"},
          {"default dtype", at::toString(c10::get_default_dtype_as_scalartype())},
          {"float32 matmul precision",
           base::str_cat(static_cast<int>(at::globalContext().float32MatmulPrecision()))}};
}

// The store ends with worker 0: wait until all workers have read it before one of them throws.
void wait_for_all(cluster::Membership& membership, std::chrono::milliseconds timeout) {
  try {
    membership.barrier("strategy/read", timeout);
  } catch (const Error&) {
  }
}

void check_equal(cluster::Membership& membership, const std::vector<comm::Facts>& by_rank,
                 std::chrono::milliseconds timeout) {
  const auto found = comm::find_difference(by_rank);
  if (!found) return;
  wait_for_all(membership, timeout);
  const auto& members = membership.members();
  throw Error(
      ErrorCode::kFailedPrecondition,
      base::str_cat("The workers disagree: ",
                    cluster::to_string(members[static_cast<std::size_t>(found->rank)].task),
                    " has ", found->name, " ", found->value.value_or("nothing"), " and ",
                    cluster::to_string(members.front().task), " has ",
                    found->first_value.value_or("nothing"), "; start all with the same options."));
}

constexpr std::string_view kReplicasFact = "replicas";

/// Exchanges the number of replicas of each process, and checks that the workers' facts are equal.
/// Uses the store, because the transport of tensors is one of these facts.
comm::ProcessLayout exchange_layouts(cluster::Membership& membership, std::size_t replicas,
                                     const comm::Facts& own, std::chrono::milliseconds timeout) {
  const auto key_of = [](int rank) { return base::str_cat("strategy/", rank); };
  comm::Facts sent = {{std::string(kReplicasFact), base::str_cat(replicas)}};
  sent.insert(sent.end(), own.begin(), own.end());
  membership.set(key_of(membership.self().rank), comm::to_text(sent));
  comm::ProcessLayout layout{.process = membership.self().rank, .replicas = {}};
  std::vector<comm::Facts> by_rank;
  for (const cluster::Member& member : membership.members()) {
    comm::Facts theirs = comm::facts_in(membership.get(key_of(member.rank), timeout));
    const auto count = theirs.empty() || theirs.front().name != kReplicasFact
                           ? std::nullopt
                           : base::parse_int(theirs.front().value);
    check_state(count.has_value(),
                base::str_cat("The workers disagree: ", cluster::to_string(member.task),
                              " runs another version of Brigade."));
    layout.replicas.push_back(static_cast<int>(*count));
    theirs.erase(theirs.begin());
    by_rank.push_back(std::move(theirs));
  }
  check_equal(membership, by_rank, timeout);
  return layout;
}

/// NCCL transfers only tensors on GPUs; host values (counts and names) need another transport.
comm::CommunicationOptions for_host_values(comm::CommunicationOptions options, bool on_cpu) {
  if (options.transport != comm::Transport::kNccl) return options;
  check_argument(
      !on_cpu,
      "MultiWorkerMirroredStrategy: the transport 'nccl' transfers tensors between GPUs, "
      "and this worker's replicas are on CPUs: use 'auto', or give every worker GPUs.");
  options.transport = comm::Transport::kAuto;
  return options;
}

std::shared_ptr<const WorkerGroup> make_workers(std::shared_ptr<cluster::Membership> membership,
                                                const MultiWorkerMirroredOptions& options,
                                                std::size_t replicas, bool on_cpu) {
  comm::CommunicationOptions on_host = for_host_values(options.communication, on_cpu);
  if (!on_host.key) on_host.key = options.join.key;
  if (membership->members().size() == 1) return nullptr;
  comm::ProcessLayout layout = exchange_layouts(
      *membership, replicas, worker_facts(options, on_cpu), options.join.start_timeout);
  auto communicator = comm::make_process_communicator(membership, on_host);
  return std::make_shared<const WorkerGroup>(
      WorkerGroup{.membership = std::move(membership),
                  .communicator = std::move(communicator),
                  .layout = std::move(layout),
                  .bytes_per_pack = options.communication.bytes_per_pack,
                  .communication = options.communication});
}

StrategyParts parts_of(std::shared_ptr<cluster::Membership> membership,
                       const MultiWorkerMirroredOptions& options) {
  StrategyParts parts = mirrored_parts("multi_worker_mirrored", choose_worker_devices(options));
  const bool on_cpu = parts.devices.front().is_cpu();
  parts.workers = make_workers(std::move(membership), options, parts.devices.size(), on_cpu);
  if (parts.workers && on_cpu) parts.synchronizer = make_worker_synchronizer;
  parts.seed = options.seed;
  parts.placement = options.placement;
  parts.timeout = options.timeout;
  return parts;
}

}  // namespace

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(MultiWorkerMirroredOptions options)
    : MultiWorkerMirroredStrategy(cluster::resolve_cluster(), std::move(options)) {}

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(const cluster::ClusterConfig& cluster,
                                                         MultiWorkerMirroredOptions options)
    : MultiWorkerMirroredStrategy(rpc::join(cluster, options.join), options) {}

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(
    std::shared_ptr<cluster::Membership> membership, MultiWorkerMirroredOptions options)
    : Strategy(parts_of(std::move(membership), options)) {}

}  // namespace brigade::distribute
