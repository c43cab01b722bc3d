#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "brigade/launch/hosts.h"
#include "brigade/launch/signal_source.h"

namespace brigade::launch {

/// The hosts of a job once their launchers have met (`meet_hosts`), or the signal that came first.
std::variant<std::unique_ptr<Hosts>, int> meet_unless_told(const JobOptions& options, int number,
                                                           SignalSource& signals);

}  // namespace brigade::launch
