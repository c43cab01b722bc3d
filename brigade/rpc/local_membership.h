#pragma once

#include <memory>

#include "brigade/cluster/membership.h"

namespace brigade::rpc {

/// A cluster of one: its store is in memory, its barriers are passed at once, nobody is ever lost.
std::shared_ptr<cluster::Membership> make_local_membership(const cluster::Member& self,
                                                           int generation);

}  // namespace brigade::rpc
