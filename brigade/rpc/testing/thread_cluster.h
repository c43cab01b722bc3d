#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/rpc/rendezvous.h"

namespace brigade::rpc::testing {

/// What became of one rank that tried to join.
struct Joined {
  std::shared_ptr<cluster::Membership> membership;
  std::optional<Error> error;
};

/// The configuration of a rank whose launcher serves the rendezvous at `address`.
cluster::ClusterConfig launched_config(const std::string& address, int rank, int world_size);

/// Joins with each configuration, a thread each, and returns when all calls have returned.
std::vector<Joined> join_together(const std::vector<cluster::ClusterConfig>& configs,
                                  const JoinOptions& options);

/// The memberships of all ranks over a server that the test has made. Throws the first error.
std::vector<std::shared_ptr<cluster::Membership>> join_all(const RendezvousServer& server,
                                                           int world_size,
                                                           const JoinOptions& options);

/// What tests of ours join with: no key, limits that end a test that hangs.
JoinOptions test_options();

/// A TCP port on 127.0.0.1 that was free a moment ago.
int free_port();

/// Whether `done` came true within ten seconds.
bool eventually(const std::function<bool()>& done);

}  // namespace brigade::rpc::testing
