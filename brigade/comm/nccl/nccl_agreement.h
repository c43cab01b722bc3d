#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/cluster/environment_variables.h"
#include "brigade/cluster/membership.h"
#include "brigade/comm/communicator.h"
#include "brigade/comm/nccl/nccl_communicator.h"
#include "brigade/comm/process_communicator.h"

/// What processes agree on through the membership's store before NCCL is called, and their
/// communicators after that. Nothing here needs a GPU.
namespace brigade::comm {

/// Why NCCL cannot be used between these processes.
struct NcclObstacle {
  ErrorCode code = ErrorCode::kFailedPrecondition;
  std::string reason = {};  ///< a sentence on one line that also says what to do

  friend bool operator==(const NcclObstacle&, const NcclObstacle&) = default;
};

/// Whether one process can use NCCL, and its GPUs.
struct NcclCapability {
  std::optional<NcclObstacle> obstacle = std::nullopt;
  std::vector<std::string> cards = {};  ///< its replicas' GPUs, by ids that are unique on a host
};

/// Why the network rules of this process forbid NCCL, if they do. NCCL sends and listens without
/// encryption, on the interfaces named in NCCL_SOCKET_IFNAME. Without a cluster key it may not
/// leave this machine. With a key and kAuto it may do so only if an interface is named.
std::optional<NcclObstacle> network_obstacle(const cluster::Membership& membership,
                                             Transport transport,
                                             const cluster::Environment& environment);

/// Returns the first member's obstacle, in rank order, or that two replicas share a GPU, which NCCL
/// refuses; all members get the same answer. Collective. `name` is the prefix of its keys.
std::optional<NcclObstacle> agree_on_nccl(cluster::Membership& membership, const std::string& name,
                                          const NcclCapability& own,
                                          std::chrono::milliseconds timeout);

/// Returns on every member what `make` returned on rank 0. If it threw, all members throw that.
/// Collective.
std::string exchange_nccl_id(cluster::Membership& membership, const std::string& name,
                             const std::function<std::string()>& make,
                             std::chrono::milliseconds timeout);

/// For tests: `make_nccl_process_communicators` with this NCCL (null: none) and this environment.
/// Does not require GPUs.
std::vector<std::unique_ptr<Communicator>> make_nccl_process_communicators(
    const NcclLibrary* library, const cluster::Environment& environment,
    std::shared_ptr<cluster::Membership> membership, const std::vector<c10::Device>& devices,
    std::vector<std::unique_ptr<Communicator>> host, const CommunicationOptions& options);

}  // namespace brigade::comm
