#pragma once

#include <memory>
#include <string>

#include "brigade/cluster/membership.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/comm/process_link.h"

namespace brigade::comm {

/// Whether this program was built with Gloo's headers (decided when it is configured).
bool gloo_is_built_in();

/// The link over c10d's Gloo: TCP, or TLS if there is a cluster key (cluster::ClusterKey).
/// Reductions add in rank order. The processes find each other through the membership's store,
/// under keys that begin with `name`; those of one host use the loopback interface. Throws
/// kPermissionDenied between hosts without a key, kUnimplemented without Gloo.
std::unique_ptr<ProcessLink> make_gloo_link(std::shared_ptr<cluster::Membership> membership,
                                            const std::string& name,
                                            const CommunicationOptions& options);

}  // namespace brigade::comm
