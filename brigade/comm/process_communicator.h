#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "brigade/cluster/cluster_key.h"
#include "brigade/cluster/membership.h"
#include "brigade/comm/communicator.h"
#include "brigade/comm/reduction_blocks.h"
#include "brigade/comm/step_progress.h"

namespace brigade::comm {

/// How tensors are sent between processes.
enum class Transport {
  kAuto,          ///< shared memory if all processes are on one host, otherwise Gloo
  kSharedMemory,  ///< a segment that the processes of one host map
  kGloo,          ///< c10d's Gloo over TCP; over TLS between hosts
  kMpi,           ///< MPI, between processes that mpirun started; if it is built in
  kNccl,          ///< NCCL between the replicas' GPUs, host values as with kAuto; GPUs only
};

/// "auto", "shared_memory", "gloo", "mpi", "nccl".
std::string_view to_string(Transport transport);
/// Parses what `to_string` returns, and "tcp" for Gloo. Throws kInvalidArgument, naming the
/// choices.
Transport parse_transport(std::string_view text);

/// Whether this program was built with Gloo's headers, and with an MPI library (decided when it is
/// configured).
bool gloo_is_built_in();
bool mpi_is_built_in();

/// The dtype in which gradients are sent: sums and means of float32 and float64 tensors in buffers
/// of `ProcessCommunicator::make_buffer`. Everything else (counts, metrics, broadcasts) is sent in
/// full precision. Additions are made in float32 (float64 for float64) in any case. Below full
/// precision each sum that a process sends is rounded, so the bits depend on how replicas are
/// distributed over processes.
enum class WireDtype { kFull, kBFloat16, kFloat16 };

/// How the processes of a job communicate (TensorFlow: CommunicationOptions).
struct CommunicationOptions {
  /// How tensors travel between processes.
  Transport transport = Transport::kAuto;
  /// The dtype in which gradients are sent.
  WireDtype wire = WireDtype::kFull;
  /// The least size of a gradient bucket in bytes. Buckets are reduced during backward, in the
  /// order in which it completes them. 0: one bucket per dtype, reduced after backward. Unset: the
  /// first steps try a few sizes, and the fastest is kept. The bits of the result do not depend on
  /// it.
  std::optional<std::int64_t> bytes_per_pack = 0;
  /// A collective fails if a live peer does not make the call within this time; the error names the
  /// peer. The membership detects a dead or stopped peer much earlier.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// A collective that takes longer than this is logged once, with the names of late members.
  std::chrono::milliseconds slow_after = std::chrono::seconds(5);
  /// The key that protects connections between hosts. Unset: the environment's
  /// (`ClusterKey::from_environment`). Strategies set the key with which their processes joined.
  std::optional<cluster::ClusterKey> key = std::nullopt;
};

/// What a communicator has sent so far, by its own count.
struct Traffic {
  std::int64_t collectives = 0;
  /// Bytes of tensors that this process sent, without framing.
  std::int64_t bytes_sent = 0;
};

/// A communicator whose ranks are processes, with one call at a time each. Beyond the guarantees of
/// `Communicator`, every reduction adds by the ReductionTree of its leaves, whatever the transport,
/// sizes or timing. So shared memory, Gloo and MPI give the same bits, with one bucket or many. In
/// `all_reduce` each rank is a leaf; `all_reduce_subtrees` adds the leaves of all ranks, as if one
/// rank had them all.
///
/// If a member is lost (cluster::Membership), waiting calls throw kUnavailable, naming the member.
/// After an error this communicator keeps throwing; make a new one with the next membership. Calls
/// return when they are complete; to overlap them with other work, make them on a separate thread.
///
/// In every call the ranks compare their steps and what the call is for (`progress`). If a process
/// reports that it failed in a step, the processes in that step get a StepAbandoned that names it,
/// from this call and all others until the step ends; this is the only error after which the
/// communicator stays usable. Any other difference throws a StepMismatch, which names both steps,
/// in all processes.
///
/// Thread-safety: one call at a time.
class ProcessCommunicator : public Communicator {
 public:
  /// Allocates zeros for which `all_reduce` copies the least: in shared memory, if the transport
  /// has it. A collective; the memory lives as long as the last tensor that refers to it.
  virtual at::Tensor make_buffer(std::int64_t numel, at::ScalarType dtype) = 0;
  /// Adds the values of leaves that are spread over the ranks: rank r has block r of `blocks`, and
  /// gives the sums of the subtrees `blocks.parts_of(r)`, one set of tensors each. The sums over
  /// all leaves, by the ReductionTree of all, are written to the first set of every rank; the bits
  /// do not depend on the blocks. A rank sends each of its sets once, as `all_reduce` sends its
  /// only one.
  ///
  /// `sets` has blocks.most_parts() sets of the same shapes and dtypes, one after another, on every
  /// rank. A rank with fewer parts ignores the further ones, which may be the first set's tensors
  /// again; only if it has buffers for them, nothing is copied. Throws what `all_reduce` throws,
  /// and kInvalidArgument if the ranks' `blocks` differ.
  virtual void all_reduce_subtrees(std::span<const at::Tensor> sets,
                                   const ReductionBlocks& blocks) = 0;
  virtual Transport transport() const = 0;  ///< never kAuto
  virtual Traffic traffic() const = 0;
  /// The progress of this process's steps. Updated by the code that makes the steps, while no call
  /// is running.
  virtual StepProgress& progress() = 0;
};

/// Makes the communicator of this process over all members. Returns when all members have made
/// theirs. Throws what collectives throw, kUnimplemented for a transport that is not built in, and
/// kInvalidArgument for shared memory between hosts and for NCCL, which has separate communicators
/// (comm/nccl/nccl.h).
std::unique_ptr<ProcessCommunicator> make_process_communicator(
    std::shared_ptr<cluster::Membership> membership, const CommunicationOptions& options = {});

}  // namespace brigade::comm
