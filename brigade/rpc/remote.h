#pragma once

#include <memory>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/membership.h"
#include "brigade/rpc/rendezvous.h"

/// What gRPC is needed for; `rendezvous_absent.cpp` stands in for it where there is none.
namespace brigade::rpc {

/// The server, in the process of `host`: rank 0, or the launcher with rank -1.
std::unique_ptr<RendezvousServer> make_remote_server(const RendezvousServerOptions& options,
                                                     const cluster::Member& host);

/// `join` for a world of two or more; the arguments have been checked.
std::shared_ptr<cluster::Membership> join_remote(const cluster::ClusterConfig& config,
                                                 const JoinOptions& options);

/// This process, as a member.
cluster::Member this_process(int rank, const cluster::Task& task);

}  // namespace brigade::rpc
