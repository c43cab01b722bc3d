#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "brigade/ps/parameter_server_strategy.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// The flags of training with parameter servers.
struct ServerFlags {
  std::optional<std::string> mode;  ///< default async
  std::optional<std::int64_t> staleness;
  bool staleness_aware_rate = false;
  std::optional<std::int64_t> backup_workers;
  std::optional<std::string> variable_partitioner;
  std::optional<std::string> push_dtype;
  std::optional<std::string> transport;  ///< default auto
  bool wait_for_disk = false;
  std::optional<double> server_timeout_seconds;

  void add_to(CLI::App& app);
  /// Throws UsageError for flags that cannot work, alone or together.
  void check() const;
  /// Throws UsageError, naming the first flag that was given, which `strategy` has not.
  void check_none(const std::string& strategy) const;
  std::string mode_name() const { return mode.value_or("async"); }
  /// Sets `options` as the flags say, for a job with so many servers.
  void apply_to(ps::ParameterServerOptions& options, int servers) const;
};

}  // namespace brigade::command
