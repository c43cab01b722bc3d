#include "apps/brigade/parameter_server.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "apps/brigade/exit_code.h"
#include "apps/brigade/interrupt.h"
#include "apps/brigade/strategy_flags.h"
#include "brigade/base/environment.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/environment_variables.h"
#include "brigade/io/lock_file.h"
#include "brigade/ps/server.h"
#include "brigade/ps/server/server_folder.h"
#include "brigade/tuning/freed_memory.h"

namespace brigade::command {
namespace {

using Clock = std::chrono::steady_clock;

void check_task(const cluster::ClusterConfig& config) {
  if (config.cluster.is_empty()) {
    throw UsageError("a parameter server needs a cluster with the addresses of all tasks (",
                     config.source, "); give --cluster and --task, or set TF_CONFIG");
  }
  if (ps::is_server_task(config.task)) return;
  throw UsageError("this process is ", config.task, ", which is no parameter server; ",
                   config.is_evaluator() ? "it evaluates" : "it trains",
                   " with: brigade train --strategy parameter_server");
}

/// Empty: a temporary one.
io::Path folder_of(const ParameterServerRun& run) {
  return base::environment(cluster::kServerFolderVariable).value_or(run.folder.string());
}

/// Removes the server's own folder below `folder`. Throws UsageError if another server uses it.
void remove_state(const io::Path& folder, const cluster::Task& task) {
  const io::Path own =
      folder / ps::server_folder_name({.server = task.index, .is_replica = task.job != "ps"});
  if (folder.empty() || !std::filesystem::exists(own)) return;
  const auto lock = io::LockFile::acquire(own / "lock");
  if (lock == nullptr) {
    throw UsageError("the folder ", own, " is in use by ", io::LockFile::holder(own / "lock"),
                     "; wait until that has ended, or give another folder");
  }
  std::error_code error;
  std::filesystem::remove_all(own, error);
  if (error) {
    base::log_warning("the variables in ", own, " were not removed: ", error.message());
  }
}

std::string address_of(const ps::Server& server) {
  const std::string target = server.target();
  constexpr std::string_view kScheme = "grpc://";
  return target.starts_with(kScheme) ? target.substr(kScheme.size()) : target;
}

Json report_of(const ParameterServerRun& run, const ps::Server& server, double seconds,
               const std::optional<int>& signal) {
  const ps::ServerCounters counters = server.counters();
  Json json;
  json["task"] = cluster::to_string(run.cluster.task);
  json["address"] = address_of(server);
  json["step"] = server.status().step;
  json["pushes"] = counters.pushes;
  json["duplicates"] = counters.duplicates;
  json["stale"] = counters.stale;
  json["pulls"] = counters.pulls;
  json["refused_calls"] = counters.refused_calls;
  json["seconds"] = seconds;
  json["interrupted"] = signal.has_value();
  json["signal"] = signal ? Json(signal_name(*signal)) : Json(nullptr);
  return json;
}

}  // namespace

int run_parameter_server(const ParameterServerRun& run) {
  check_task(run.cluster);
  tuning::return_freed_memory();
  const io::Path folder = folder_of(run);
  const cluster::Task& task = run.cluster.task;
  if (run.earlier == EarlierState::kRemove && !is_restarted_by_launcher())
    remove_state(folder, task);
  const auto begin = Clock::now();
  const Interrupt interrupt;
  StartWatch watch(interrupt);
  auto server = set_up([&] {
    return std::make_unique<ps::Server>(run.cluster.cluster, task.job, task.index,
                                        ps::ServerOptions{.folder = folder,
                                                          .key = run.key,
                                                          .metrics_port = run.metrics_port,
                                                          .cancel = watch.token()});
  });
  server->join();
  const auto signal = interrupt.received();
  const Json report = report_of(run, *server, seconds_between(begin, Clock::now()), signal);
  server.reset();
  if (!signal) remove_state(folder, task);
  run.output.print(report,
                   base::str_cat("step             ", report["step"].get<std::int64_t>(),
                                 "\npushes           ", report["pushes"].get<std::int64_t>(),
                                 "\npulls            ", report["pulls"].get<std::int64_t>(), "\n"));
  return signal ? exit_code_after(*signal) : kDone;
}

}  // namespace brigade::command
