#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "brigade/checkpoint/shard_exchange.h"
#include "brigade/cluster/membership.h"

namespace brigade::train {

/// A `ShardExchange` over the key-value store of a membership: each process has one key, whose
/// value it replaces. `group` separates exchanges of the same membership; it must be the same in
/// all processes. Waits end after `timeout`, and when a member is lost.
///
/// A wait polls the store, at intervals of at most 20 ms: the store notifies when a key is set for
/// the first time, not when it changes, and a new key for each message would stay in the store for
/// ever.
std::shared_ptr<checkpoint::ShardExchange> make_shard_exchange(
    std::shared_ptr<cluster::Membership> membership, std::int64_t group,
    std::chrono::milliseconds timeout);

}  // namespace brigade::train
