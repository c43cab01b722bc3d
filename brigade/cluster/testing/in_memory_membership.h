#pragma once

#include <memory>
#include <string>
#include <vector>

#include "brigade/cluster/membership.h"

namespace brigade::cluster::testing {

/// The memberships of `size` ranks that are threads of one process, over a store in memory: tests
/// of collectives use them instead of sockets. All are on one host unless `hosts` names one for
/// each.
std::vector<std::shared_ptr<Membership>> make_in_memory_memberships(
    int size, const std::vector<std::string>& hosts = {});

/// Makes all members see the rank as lost, as if its process had been killed.
void lose(Membership& any_of_the_group, int rank, const std::string& reason);

}  // namespace brigade::cluster::testing
