#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "brigade/launch/hosts.h"
#include "brigade/launch/signal_source.h"

namespace brigade::launch {

/// Returns the hosts of a job once their launchers have joined (`join_hosts`), or the number of a
/// stop signal that came first.
std::variant<std::unique_ptr<Hosts>, int> join_hosts_or_signal(const JobOptions& options, int round,
                                                               SignalSource& signals);

}  // namespace brigade::launch
