#pragma once

#include <memory>
#include <string>
#include <vector>

#include "brigade/cluster/membership.h"

namespace brigade::cluster::testing {

/// The memberships of `size` ranks that are threads of one process, over a store in memory: what
/// tests of collectives use in place of sockets. All on one host unless `hosts` names one each.
std::vector<std::shared_ptr<Membership>> make_in_memory_memberships(
    int size, const std::vector<std::string>& hosts = {});

/// Lets the rank be lost to all of its group, as if its process had been killed.
void lose(Membership& any_of_the_group, int rank, const std::string& reason);

}  // namespace brigade::cluster::testing
