#pragma once

#include <memory>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/membership.h"
#include "brigade/rpc/rendezvous.h"

/// The functions that need gRPC. Builds without gRPC use `rendezvous_absent.cpp` instead.
namespace brigade::rpc {

/// The rendezvous server, in the process of `host`: rank 0, or the launcher with rank -1.
std::unique_ptr<RendezvousServer> make_remote_server(const RendezvousServerOptions& options,
                                                     const cluster::Member& host);

/// `join` for a world of two or more; the arguments have been checked.
std::shared_ptr<cluster::Membership> join_remote(const cluster::ClusterConfig& config,
                                                 const JoinOptions& options);

/// This process, as a member.
cluster::Member this_process(int rank, const cluster::Task& task);

}  // namespace brigade::rpc
