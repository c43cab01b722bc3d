#pragma once

#include <memory>

#include "brigade/cluster/membership.h"

namespace brigade::rpc {

/// The membership of a single process: its store is in memory, its barriers return immediately, and
/// no member is ever lost.
std::shared_ptr<cluster::Membership> make_local_membership(const cluster::Member& self,
                                                           int generation);

}  // namespace brigade::rpc
