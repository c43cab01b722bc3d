#include "apps/brigade/server_flags.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/variables/partitioner.h"

namespace brigade::command {

namespace {

/// "fixed:2": two parts; "min-size:BYTES": as many as there are servers, but none smaller;
/// "max-size:BYTES": the fewest such that none is larger.
variables::Partitioner parse_partitioner(const std::string& text, int servers) {
  const std::vector<std::string> parts = base::split(text, ':');
  const auto number = parts.size() == 2 ? base::parse_int(parts[1]) : std::nullopt;
  if (number && *number >= 1) {
    if (parts[0] == "fixed") return variables::fixed_size_partitioner(*number);
    if (parts[0] == "min-size")
      return variables::min_max_variable_partitioner(
          {.max_parts = std::max(servers, 1), .min_part_bytes = *number});
    if (parts[0] == "max-size")
      return variables::variable_axis_size_partitioner({.max_part_bytes = *number});
  }
  throw UsageError(
      "--variable-partitioner is ", base::quoted(text),
      "; give fixed:PARTS, min-size:BYTES or max-size:BYTES, with a number of at least 1");
}

}  // namespace

void ServerFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Parameter servers");
  group.add("--mode", mode,
            "When the workers' updates are applied: async (each when it arrives), ssp (no worker "
            "is more than --staleness steps ahead of the slowest), sync (the gradients of all "
            "workers together) (default async)");
  group.add("--staleness", staleness,
            "ssp: by how many steps a worker may be ahead of the slowest");
  group.add_switch("--staleness-aware-rate", staleness_aware_rate,
                   "async, ssp: divides the learning rate of an update by the number of other "
                   "workers' updates that its gradients do not know");
  group.add("--backup-workers", backup_workers,
            "sync: how many workers a step does not wait for (default 0)");
  group.add("--variable-partitioner", variable_partitioner,
            "Divides variables into parts on several servers: fixed:PARTS, min-size:BYTES (a part "
            "for each server, none smaller), max-size:BYTES (default: none is divided)");
  group.add("--push-dtype", push_dtype,
            "bfloat16: rounds gradients before they are sent, which halves what pushes and the "
            "servers' logs take (default full: as they are)");
  group.add("--server-transport", transport,
            "How gradients and values travel: auto (shared memory to servers on this host), or tcp "
            "(default auto)");
  group.add_switch("--wait-for-disk", wait_for_disk,
                   "async, ssp: a step waits until its update is on the servers' disks, not only "
                   "until the one before it is");
  group.add_seconds(
      "--server-timeout", server_timeout_seconds,
      "How long a parameter server may be away before its workers give up (default 300)");
}

void ServerFlags::check() const {
  check_choice("value of --mode", mode_name(), {"async", "ssp", "sync"});
  if (staleness) check_at_least("--staleness", *staleness, 0);
  if (backup_workers) check_at_least("--backup-workers", *backup_workers, 0);
  if (staleness && mode_name() != "ssp") {
    throw UsageError("--staleness is for --mode ssp, but --mode is ", mode_name(),
                     "; leave out one of them");
  }
  if (!staleness && mode_name() == "ssp")
    throw UsageError("--mode ssp needs --staleness, such as --staleness 4");
  if (staleness_aware_rate && mode_name() == "sync")
    throw UsageError(
        "--staleness-aware-rate is for --mode async and ssp, but --mode is sync, whose updates are "
        "never stale; leave out one of them");
  if (backup_workers && mode_name() != "sync") {
    throw UsageError("--backup-workers is for --mode sync, but --mode is ", mode_name(),
                     "; leave out one of them");
  }
  if (variable_partitioner) parse_partitioner(*variable_partitioner, 1);
  if (push_dtype) check_choice("value of --push-dtype", *push_dtype, {"full", "bfloat16"});
  if (transport) check_choice("value of --server-transport", *transport, {"auto", "tcp"});
  if (server_timeout_seconds) to_milliseconds("--server-timeout", *server_timeout_seconds);
}

void ServerFlags::check_none(const std::string& strategy) const {
  for (const auto& [flag, is_given] :
       {std::pair("--mode", mode.has_value()), std::pair("--staleness", staleness.has_value()),
        std::pair("--staleness-aware-rate", staleness_aware_rate),
        std::pair("--backup-workers", backup_workers.has_value()),
        std::pair("--variable-partitioner", variable_partitioner.has_value()),
        std::pair("--push-dtype", push_dtype.has_value()),
        std::pair("--server-transport", transport.has_value()),
        std::pair("--wait-for-disk", wait_for_disk),
        std::pair("--server-timeout", server_timeout_seconds.has_value())}) {
    if (!is_given) continue;
    throw UsageError("strategy ", strategy, " has no parameter servers; leave out ", flag,
                     ", or use --strategy parameter_server");
  }
}

void ServerFlags::apply_to(ps::ParameterServerOptions& options, int servers) const {
  if (mode_name() == "ssp") options.mode = ps::UpdateMode::kBounded;
  if (mode_name() == "sync") options.mode = ps::UpdateMode::kSync;
  options.staleness = staleness.value_or(0);
  options.staleness_aware = staleness_aware_rate;
  options.backup_workers = static_cast<int>(backup_workers.value_or(0));
  if (variable_partitioner)
    options.variable_partitioner = parse_partitioner(*variable_partitioner, servers);
  if (push_dtype == "bfloat16") options.push_dtype = at::kBFloat16;
  options.shared_memory = transport != "tcp";
  options.wait_for_disk = wait_for_disk;
  if (server_timeout_seconds)
    options.server_timeout = to_milliseconds("--server-timeout", *server_timeout_seconds);
}

}  // namespace brigade::command
