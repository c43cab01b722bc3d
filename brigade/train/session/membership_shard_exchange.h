#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "brigade/checkpoint/shard_exchange.h"
#include "brigade/cluster/membership.h"

namespace brigade::train {

/// The boards of a membership's processes, as keys of its store: one a process, whose value is
/// replaced. `group` tells these boards from others of the same membership; all processes must have
/// the same. Waits end after `timeout`, and when a member is lost.
///
/// A wait looks at the store again and again, less than every 20 ms: the store tells when a key is
/// set first, not when it changes, and a key for each text would stay there for ever.
std::shared_ptr<checkpoint::ShardExchange> make_shard_exchange(
    std::shared_ptr<cluster::Membership> membership, std::int64_t group,
    std::chrono::milliseconds timeout);

}  // namespace brigade::train
