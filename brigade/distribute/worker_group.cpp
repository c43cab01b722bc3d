#include "brigade/distribute/worker_group.h"

#include <ATen/Context.h>
#include <c10/core/DefaultDtype.h>
#include <torch/version.h>

#include <numeric>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/device/arithmetic_fingerprint.h"
#include "brigade/distribute/logical_replicas.h"
#include "brigade/input/split.h"
#include "brigade/machine/topology.h"

namespace brigade::distribute {

namespace {

std::string difference_text(const cluster::Membership& membership,
                            const comm::FactDifference& found) {
  const auto& members = membership.members();
  return base::str_cat(cluster::to_string(members[static_cast<std::size_t>(found.rank)].task),
                       " has ", found.name, " ", found.value.value_or("nothing"), " and ",
                       cluster::to_string(members.front().task), " has ",
                       found.first_value.value_or("nothing"));
}

/// The facts about a worker that must be equal in all workers.
comm::Facts worker_facts(const WorkerGroupOptions& options) {
  const std::optional<std::int64_t>& bytes = options.communication.bytes_per_pack;
  comm::Facts facts = {
      {"libtorch", TORCH_VERSION},
      {"seed", base::str_cat(options.seed)},
      {"devices", options.on_cpu ? "cpu" : "gpu"},
      {"transport", std::string(comm::to_string(options.communication.transport))},
      {"wire", base::str_cat(static_cast<int>(options.communication.wire))},
      {"bytes_per_pack", bytes ? base::str_cat(*bytes) : "auto"},
      {"default dtype", at::toString(c10::get_default_dtype_as_scalartype())},
      {"float32 matmul precision",
       base::str_cat(static_cast<int>(at::globalContext().float32MatmulPrecision()))},
      {"logical_replicas", base::str_cat(options.logical_replicas)},
      {"audit_every", base::str_cat(options.audit_every)},
      // Threads change the order of additions, on which logical replicas must agree.
      {"threads_per_replica", options.logical_replicas > 0
                                  ? base::str_cat(options.threads_per_replica)
                                  : std::string("any")}};
  facts.insert(facts.end(), options.facts.begin(), options.facts.end());
  return facts;
}

// The store ends with worker 0: wait until all workers have read it before one of them throws.
void wait_for_all(cluster::Membership& membership, std::chrono::milliseconds timeout) {
  try {
    membership.barrier("strategy/read", timeout);
  } catch (const Error&) {
  }
}

constexpr std::string_view kDevicesFact = "devices of this worker";
constexpr std::string_view kArithmeticFact = "arithmetic of this worker";

/// What each worker has, by rank.
struct Exchanged {
  std::vector<int> devices;
  std::vector<std::string> arithmetic;  // its fingerprint; empty: not needed
  std::vector<std::string> processors;
};

/// Kernels that give other bits would break what logical replicas promise.
void check_same_arithmetic(cluster::Membership& membership, const Exchanged& exchanged,
                           std::chrono::milliseconds timeout) {
  const auto& members = membership.members();
  for (std::size_t rank = 1; rank < members.size(); ++rank) {
    if (exchanged.arithmetic[rank] == exchanged.arithmetic.front()) continue;
    const auto describe = [&](std::size_t of) {
      return base::str_cat(cluster::to_string(members[of].task), " on ", members[of].host, " (",
                           exchanged.processors[of], ", fingerprint ", exchanged.arithmetic[of],
                           ")");
    };
    wait_for_all(membership, timeout);
    throw Error(ErrorCode::kFailedPrecondition, "The processors of ", describe(0), " and ",
                describe(rank),
                " compute with other bits, and logical_replicas promises the same weights on any: "
                "use hosts with equal processors, or cap the instructions of all "
                "(ATEN_CPU_CAPABILITY, ONEDNN_MAX_CPU_ISA, MKL_CBWR).");
  }
}

/// Exchanges what the workers are, and checks that their facts are equal. Uses the store, because
/// the transport of tensors is one of these facts.
Exchanged exchange_facts(cluster::Membership& membership, const WorkerGroupOptions& options) {
  const auto timeout = options.join.start_timeout;
  const auto key_of = [](int rank) { return base::str_cat("strategy/", rank); };
  const bool needs_arithmetic = options.logical_replicas > 0 && options.on_cpu;
  comm::Facts sent = {
      {std::string(kDevicesFact), base::str_cat(options.devices)},
      {std::string(kArithmeticFact),
       needs_arithmetic ? device::arithmetic_fingerprint(options.threads_per_replica)
                        : std::string()},
      {"processor", machine::processor_name()}};
  const auto own = static_cast<std::ptrdiff_t>(sent.size());
  for (comm::Fact& fact : worker_facts(options)) sent.push_back(std::move(fact));
  membership.set(key_of(membership.self().rank), comm::to_text(sent));
  Exchanged exchanged;
  std::vector<comm::Facts> by_rank;
  for (const cluster::Member& member : membership.members()) {
    comm::Facts theirs = comm::facts_in(membership.get(key_of(member.rank), timeout));
    const bool is_known = std::ssize(theirs) > own && theirs[0].name == kDevicesFact &&
                          theirs[1].name == kArithmeticFact;
    const auto count = is_known ? base::parse_int(theirs[0].value) : std::nullopt;
    check_state(count.has_value(), "The workers disagree: ", cluster::to_string(member.task),
                " runs another version of Brigade.");
    exchanged.devices.push_back(static_cast<int>(*count));
    exchanged.arithmetic.push_back(theirs[1].value);
    exchanged.processors.push_back(theirs[2].value);
    theirs.erase(theirs.begin(), theirs.begin() + own);
    by_rank.push_back(std::move(theirs));
  }
  if (const auto found = comm::find_difference(by_rank)) {
    wait_for_all(membership, timeout);
    throw Error(ErrorCode::kFailedPrecondition,
                "The workers disagree: ", difference_text(membership, *found),
                "; start all with the same options.");
  }
  if (needs_arithmetic) check_same_arithmetic(membership, exchanged, timeout);
  return exchanged;
}

}  // namespace

std::shared_ptr<const WorkerGroup> make_worker_group(
    std::shared_ptr<cluster::Membership> membership, const WorkerGroupOptions& options) {
  // NCCL transfers only tensors on GPUs; host values (counts and names) need another transport.
  comm::CommunicationOptions on_host = options.communication;
  if (on_host.transport == comm::Transport::kNccl) {
    check_argument(
        !options.on_cpu,
        "MultiWorkerMirroredStrategy: the transport 'nccl' transfers tensors between GPUs, "
        "and this worker's replicas are on CPUs: use 'auto', or give every worker GPUs.");
    on_host.transport = comm::Transport::kAuto;
  }
  if (!on_host.key) on_host.key = options.join.key;
  if (membership->members().size() == 1) return nullptr;
  const Exchanged exchanged = exchange_facts(*membership, options);
  const std::vector<int>& devices = exchanged.devices;
  const int self = membership->self().rank;
  comm::ProcessLayout layout{.process = self, .replicas = devices};
  std::vector<int> replicas_of_device;
  if (options.pipelines > 0) {
    const auto blocks = input::split_sizes(options.logical_replicas, options.pipelines);
    const std::size_t in_each = devices.size() / blocks.size();
    for (std::size_t process = 0; process < devices.size(); ++process)
      layout.replicas[process] = static_cast<int>(blocks[process / in_each]);
  } else if (options.logical_replicas > 0) {
    const int all = layout.num_replicas();
    int first = 0;
    for (std::size_t process = 0; process < devices.size(); first += devices[process++]) {
      const LogicalReplicas logical =
          divide_logical_replicas(options.logical_replicas, all, first, devices[process]);
      layout.replicas[process] =
          std::accumulate(logical.of_device.begin(), logical.of_device.end(), 0);
      if (static_cast<int>(process) == self) replicas_of_device = logical.of_device;
    }
  }
  std::shared_ptr<comm::ProcessCommunicator> communicator =
      options.communicator ? options.communicator(membership, on_host)
                           : comm::make_process_communicator(membership, on_host);
  return std::make_shared<const WorkerGroup>(
      WorkerGroup{.membership = std::move(membership),
                  .communicator = std::move(communicator),
                  .layout = std::move(layout),
                  .bytes_per_pack = options.communication.bytes_per_pack,
                  .replicas_of_device = std::move(replicas_of_device),
                  .arithmetic = exchanged.arithmetic[static_cast<std::size_t>(self)],
                  .communication = options.communication});
}

void check_agreement(const WorkerGroup* workers, const comm::Facts& own, const Compared& compared) {
  if (workers == nullptr) return;
  const auto found = comm::find_difference(*workers->communicator, own);
  if (!found) return;
  throw Error(ErrorCode::kInvalidArgument, "The workers' ", compared.what,
              " differ: ", difference_text(*workers->membership, *found), "; ", compared.advice);
}

}  // namespace brigade::distribute
