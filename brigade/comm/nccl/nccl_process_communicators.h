#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <vector>

#include "brigade/cluster/environment_variables.h"
#include "brigade/cluster/membership.h"
#include "brigade/comm/communicator.h"
#include "brigade/comm/nccl/nccl_clique.h"
#include "brigade/comm/process_communicator.h"

namespace brigade::comm {

/// For tests: `make_nccl_process_communicators` with this NCCL (null: none) and this environment.
/// Does not require GPUs.
std::vector<std::unique_ptr<Communicator>> make_nccl_process_communicators(
    const NcclLibrary* library, const cluster::Environment& environment,
    std::shared_ptr<cluster::Membership> membership, const std::vector<c10::Device>& devices,
    std::vector<std::unique_ptr<Communicator>> host, const CommunicationOptions& options);

}  // namespace brigade::comm
