#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "brigade/cluster/cluster_key.h"
#include "brigade/cluster/membership.h"
#include "brigade/comm/communicator.h"
#include "brigade/comm/step_progress.h"

namespace brigade::comm {

/// What carries tensors between processes.
enum class Transport {
  kAuto,          ///< shared memory where all processes are on one host, Gloo otherwise
  kSharedMemory,  ///< a segment that the processes of one host map
  kGloo,          ///< c10d's Gloo over TCP; over TLS between hosts
  kMpi,           ///< MPI, between processes that mpirun started; where it is built in
  kNccl,          ///< NCCL between the replicas' cards, host values as with kAuto; GPUs only
};

/// "auto", "shared_memory", "gloo", "mpi", "nccl".
std::string_view to_string(Transport transport);
/// Reads what `to_string` writes, and "tcp" for Gloo. Throws kInvalidArgument, naming the choices.
Transport parse_transport(std::string_view text);

/// What gradients are on the wire: sums and means of float32 and float64 tensors that lie in
/// buffers of `ProcessCommunicator::make_buffer`. All else (counts, metrics, broadcasts) travels in
/// full. They are added in float32 (float64 for float64) in any case.
enum class WireType { kFull, kBFloat16, kFloat16 };

/// How the processes of a job communicate (TensorFlow: CommunicationOptions).
struct CommunicationOptions {
  Transport transport = Transport::kAuto;
  WireType wire = WireType::kFull;
  /// Gradients travel in packs of at least so many bytes, in the order in which backward finishes
  /// them, while backward goes on; 0: all in one behind it; unset: the first steps try a few sizes,
  /// and the fastest stays. The result's bits do not depend on it.
  std::optional<std::int64_t> bytes_per_pack = 0;
  /// A collective that a live peer does not reach within this time fails and names it. A dead or
  /// stopped one is found by the membership, long before.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// A collective that takes longer than this is reported in the log once, naming who is late.
  std::chrono::milliseconds slow_after = std::chrono::seconds(5);
  /// What connections between hosts are protected with. Unset: the environment's
  /// (`ClusterKey::from_environment`); strategies give the one that their processes joined with.
  std::optional<cluster::ClusterKey> key = std::nullopt;
};

/// What a communicator moved so far, by its own count.
struct Traffic {
  std::int64_t collectives = 0;
  /// Bytes of tensors that left this process, framing not counted.
  std::int64_t bytes_sent = 0;
};

/// A communicator whose ranks are processes, one call at a time each. Every reduction adds in rank
/// order, whatever the transport, sizes or timing: each rank receives everybody's part of its share
/// of the elements, adds them up, and sends the sums. So the same bits come out of shared
/// memory, Gloo and MPI, of one pack and of many.
///
/// A member's loss (cluster::Membership) releases who waits with kUnavailable, naming the member.
/// After an error make another one of the next membership: this one keeps throwing. Calls return
/// when they are done; to overlap them with other work, make them from a thread of their own.
///
/// Every exchange says in which step it is made, and for what (`progress`). Where a process says
/// that it failed in a step, those that are in it get a StepAbandoned naming it, from this call and
/// all others until the step ends; after that error alone the communicator goes on to work. Any
/// other difference is a StepMismatch that names both steps, in all processes.
///
/// Thread-safety: one call at a time.
class ProcessCommunicator : public Communicator {
 public:
  /// Zeros from which `all_reduce` has the least to copy: in the shared segment, where there is
  /// one. Collective, as all calls; lives as long as the last reference to its memory.
  virtual at::Tensor make_buffer(std::int64_t numel, at::ScalarType dtype) = 0;
  virtual Transport transport() const = 0;  ///< never kAuto
  virtual Traffic traffic() const = 0;
  /// Where this process stands; told by who makes the steps, while no call is under way.
  virtual StepProgress& progress() = 0;
};

/// Communicator of this process over all members. Returns when all have made theirs; throws as
/// collectives do, and kUnimplemented for a transport that is not built in, kInvalidArgument for
/// shared memory between hosts and for NCCL, which has communicators of its own (comm/nccl.h).
std::unique_ptr<ProcessCommunicator> make_process_communicator(
    std::shared_ptr<cluster::Membership> membership, const CommunicationOptions& options = {});

}  // namespace brigade::comm
