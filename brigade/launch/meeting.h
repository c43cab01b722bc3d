#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "brigade/launch/hosts.h"
#include "brigade/launch/signal_source.h"

namespace brigade::launch {

/// The hosts of a job once their launchers have met, or the signal that came first. Waits as long
/// as the options say; throws as `meet_hosts`.
std::variant<std::unique_ptr<Hosts>, int> meet_unless_told(const JobOptions& options,
                                                           SignalSource& signals);

}  // namespace brigade::launch
