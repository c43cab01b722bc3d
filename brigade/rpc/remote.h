#pragma once

#include <memory>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/membership.h"
#include "brigade/rpc/rendezvous.h"

/// What `join` and `make_rendezvous_server` are made of. Builds without gRPC take the first two
/// functions from `rendezvous_absent.cpp`.
namespace brigade::rpc {

/// The rendezvous server, in the process of `host`: rank 0, or the launcher with rank -1.
std::unique_ptr<RendezvousServer> make_remote_server(const RendezvousServerOptions& options,
                                                     const cluster::Member& host);

/// `join` for a world of two or more; the arguments have been checked.
std::shared_ptr<cluster::Membership> join_remote(const cluster::ClusterConfig& config,
                                                 const JoinOptions& options);

/// The membership of a single process: its store is in memory, its barriers return immediately, and
/// no member is ever lost.
std::shared_ptr<cluster::Membership> make_local_membership(const cluster::Member& self,
                                                           int generation);

/// This process, as a member.
cluster::Member this_process(int rank, const cluster::Task& task);

}  // namespace brigade::rpc
