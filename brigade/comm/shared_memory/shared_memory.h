#pragma once

#include <memory>
#include <string>

#include "brigade/cluster/membership.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/comm/process_link.h"

namespace brigade::comm {

/// The link between processes of one host, over memory that they all map. Reductions add in rank
/// order. Returns when all have mapped the memory. `name` is the prefix of its keys in the
/// membership's store. Throws kUnavailable in every process if one of them cannot map it.
std::unique_ptr<ProcessLink> make_shared_memory_link(
    std::shared_ptr<cluster::Membership> membership, const std::string& name,
    const CommunicationOptions& options);

}  // namespace brigade::comm
