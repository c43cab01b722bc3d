#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/rpc/rendezvous.h"

namespace brigade::rpc::testing {

/// The result of one rank's attempt to join.
struct Joined {
  std::shared_ptr<cluster::Membership> membership;
  std::optional<Error> error;
};

/// The configuration of a rank whose launcher serves the rendezvous at `address`.
cluster::ClusterConfig launched_config(const std::string& address, int rank, int world_size);

/// Joins with each configuration on its own thread, and returns when all calls have returned.
std::vector<Joined> join_together(const std::vector<cluster::ClusterConfig>& configs,
                                  const JoinOptions& options);

/// The error that a join with this configuration throws.
Error join_error(const cluster::ClusterConfig& config, const JoinOptions& options);

/// Joins all ranks through the test's server. Throws the first error.
std::vector<std::shared_ptr<cluster::Membership>> join_all(const RendezvousServer& server,
                                                           int world_size,
                                                           const JoinOptions& options);

/// Options for tests: no key, and a time limit that ends a hanging test.
JoinOptions test_options();

/// A TCP port on 127.0.0.1 that was free a moment ago.
int free_port();

/// Waits up to ten seconds until `done` returns true; returns whether it did.
bool eventually(const std::function<bool()>& done);

}  // namespace brigade::rpc::testing
