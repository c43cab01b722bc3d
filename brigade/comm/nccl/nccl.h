#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <memory>
#include <vector>

#include "brigade/cluster/membership.h"
#include "brigade/comm/communicator.h"
#include "brigade/comm/process_communicator.h"

namespace brigade::comm {

/// Whether this program was built with NCCL (decided when it is configured; see
/// docs/design/build.md).
bool nccl_is_built_in();

/// Makes one communicator per rank. Reductions and broadcasts of CUDA tensors use NCCL, on each
/// rank's current stream; everything else uses `local`, which also compares the ranks' calls before
/// NCCL gets them. `cards[rank]` is the rank's GPU; NCCL requires that they are all different.
/// Strategies use it if it is built in and every replica has its own GPU.
///
/// NCCL chooses the order of additions. It is the same in every run on the same GPUs, but it is not
/// that of the ReductionTree. If a rank fails, the others' calls fail too, and what is queued on
/// their GPUs is aborted; the communicators can then not be used any more. A call fails if a rank
/// does not make it within `timeout`. Throws kUnimplemented if NCCL is not built in,
/// kInvalidArgument if two ranks share a GPU, kUnavailable (with NCCL's text) if NCCL fails.
std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(
    const std::vector<int>& cards, std::vector<std::unique_ptr<Communicator>> local,
    std::chrono::milliseconds timeout = std::chrono::minutes(10));

/// The same for all replicas of all processes. `host` are this process's communicators among them
/// (`make_hierarchical_communicators`); `devices` are its replicas' devices, in the same order. In
/// every collective all ranks compare their calls over `host` first, so that calls that differ are
/// errors. Reductions and broadcasts of dense CUDA tensors with the same dtype, shape and strides
/// on all ranks then use NCCL, in its own order of additions, and return when they are complete on
/// the GPU; everything else uses `host`. As in a ProcessCommunicator, waits end with an error that
/// names the member if one is lost, gave up or left; what then runs on the GPUs is aborted.
///
/// With `Transport::kAuto` it returns `host` itself if NCCL cannot be used: on CPUs, in a program
/// without NCCL, if replicas share a GPU, or if NCCL would listen or send beyond what the cluster's
/// key allows (docs/guide/clusters.md). With `Transport::kNccl` these are errors: kInvalidArgument,
/// kUnimplemented, kPermissionDenied, naming the member. With other transports it returns `host`.
/// Collective.
std::vector<std::unique_ptr<Communicator>> make_nccl_process_communicators(
    std::shared_ptr<cluster::Membership> membership, const std::vector<c10::Device>& devices,
    std::vector<std::unique_ptr<Communicator>> host, const CommunicationOptions& options = {});

}  // namespace brigade::comm
