#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/cluster/environment_variables.h"
#include "brigade/cluster/membership.h"
#include "brigade/comm/process_communicator.h"

/// What processes settle through the membership's store before NCCL is called: nothing here needs a
/// card.
namespace brigade::comm {

/// Why NCCL cannot carry tensors between these processes.
struct NcclObstacle {
  ErrorCode code = ErrorCode::kFailedPrecondition;
  std::string reason = {};  ///< a sentence, on one line, that says what to do

  friend bool operator==(const NcclObstacle&, const NcclObstacle&) = default;
};

/// What one process says of itself.
struct NcclCapability {
  std::optional<NcclObstacle> obstacle = std::nullopt;
  std::vector<std::string> cards = {};  ///< its replicas', by what tells a host's cards apart
};

/// What the network rules of this process are against NCCL, which sends and listens in the clear,
/// on the interfaces that NCCL_SOCKET_IFNAME names. Nothing goes beyond this machine without a
/// cluster key; and with one, not by itself (kAuto) where no interface is named.
std::optional<NcclObstacle> network_obstacle(const cluster::Membership& membership,
                                             Transport transport,
                                             const cluster::Environment& environment);

/// The first obstacle of any member, in rank order, or two replicas on one card, which NCCL
/// refuses; all members get the same answer. Collective; `name` is the prefix of its keys.
std::optional<NcclObstacle> agree_on_nccl(cluster::Membership& membership, const std::string& name,
                                          const NcclCapability& own, std::chrono::milliseconds timeout);

/// What `make` returned in rank 0, in every member. If it threw, everybody throws that. Collective.
std::string exchange_nccl_id(cluster::Membership& membership, const std::string& name,
                             const std::function<std::string()>& make,
                             std::chrono::milliseconds timeout);

}  // namespace brigade::comm
