#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <vector>

#include "brigade/cluster/membership.h"
#include "brigade/comm/communicator.h"
#include "brigade/comm/process_communicator.h"

namespace brigade::comm {

/// Whether this program was built with NCCL (decided when it is configured; see
/// docs/design/build.md).
bool nccl_is_built_in();

/// One communicator a rank whose reductions and broadcasts of CUDA tensors go through NCCL, each on
/// its rank's current stream, and everything else through `local`, which also compares what the
/// ranks call before NCCL sees it. `cards[rank]` is the rank's card; NCCL wants them all different.
/// Chosen by strategies where it is built in and every replica has a card of its own.
///
/// NCCL adds in an order of its own choosing: the same in every run on the same cards, but not rank
/// order. Throws kUnimplemented if NCCL is not built in, kInvalidArgument if two ranks share a
/// card, kUnavailable (with NCCL's text) if NCCL fails.
std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(
    const std::vector<int>& cards, std::vector<std::unique_ptr<Communicator>> local);

/// The same for all replicas of all processes: `host` are this process's communicators among them
/// (`make_hierarchical_communicators`), `devices` its replicas' in the same order. Every collective
/// meets on the host first, where ranks that do not make the same call are told; reductions and
/// broadcasts of dense CUDA tensors that are alike in all ranks then go over NCCL, and return when
/// they have ended on the card; everything else goes through `host`. Waits end as those of a
/// ProcessCommunicator do: with an error that names the member that is lost, gave up or left. What
/// then runs on the cards is aborted.
///
/// With `Transport::kAuto` it returns `host` itself where NCCL cannot be used: on CPUs; for a
/// program without NCCL; where replicas share a card; and where it would listen or send beyond what
/// the cluster's key allows (docs/clusters.md). `Transport::kNccl` makes those errors:
/// kInvalidArgument, kUnimplemented, kPermissionDenied, naming the member. Other transports:
/// `host`. Collective.
std::vector<std::unique_ptr<Communicator>> make_nccl_process_communicators(
    std::shared_ptr<cluster::Membership> membership, const std::vector<c10::Device>& devices,
    std::vector<std::unique_ptr<Communicator>> host, const CommunicationOptions& options = {});

}  // namespace brigade::comm
