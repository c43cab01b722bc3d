#include "brigade/rpc/start_report.h"

#include "brigade/base/log.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/rpc/rendezvous_state.h"

namespace brigade::rpc {

std::string describe_rank(const cluster::ClusterConfig& config, int rank) {
  // Launchers of several hosts join in the same way; their job name tells them apart.
  if (config.cluster.is_empty() && config.task.job != cluster::Task().job)
    return base::str_cat(config.task.job, " ", rank);
  const auto tasks = config.cluster.training_tasks();
  if (rank < 0 || static_cast<std::size_t>(rank) >= tasks.size()) {
    return base::str_cat("rank ", rank);
  }
  const auto& task = tasks[static_cast<std::size_t>(rank)];
  return base::str_cat(task, " at ", config.cluster.task_address(task), " (rank ", rank, ")");
}

namespace {

auto describing(const cluster::ClusterConfig& config) {
  return [&config](int rank) { return describe_rank(config, rank); };
}

}  // namespace

std::string waiting_text(const cluster::ClusterConfig& config, const std::vector<int>& missing) {
  constexpr std::size_t kMostNames = 8;
  return base::str_cat("Waiting for ", missing.size(), " of ", config.world_size,
                       " processes: ", base::listed(missing, ", ", describing(config), kMostNames));
}

std::string missing_text(const cluster::ClusterConfig& config, const std::vector<int>& missing,
                         std::chrono::milliseconds waited) {
  return base::str_cat(missing.size(), " of ", config.world_size, " processes did not join within ",
                       in_seconds(waited), ": ", base::listed(missing, ", ", describing(config)),
                       ". See whether they were started and what they printed.");
}

std::string describe_host(const cluster::ClusterConfig& config) {
  if (config.rendezvous_host == cluster::ClusterConfig::RendezvousHost::kLauncher) {
    return base::str_cat("the launcher at ", config.rendezvous);
  }
  const std::string first = describe_rank(config, 0);
  return config.cluster.is_empty() ? base::str_cat(first, " at ", config.rendezvous) : first;
}

std::string keyless_text(const cluster::ClusterConfig& config) {
  return base::str_cat(
      "Without a cluster key any program of this machine, other users' too, can join this job at ",
      config.rendezvous,
      " in place of one that has not joined yet, and what its processes send is not encrypted. "
      "Where not all are trusted, give all processes a key (brigade launch --new-key), or start "
      "them with brigade launch, which makes one.");
}

void WaitingLog::report(const std::string& text) {
  if (text.empty() || text == last_) return;
  last_ = text;
  base::log_info(text);
}

void WaitingLog::report_all_joined(int world_size) const {
  if (!last_.empty()) base::log_info("All ", world_size, " processes have joined.");
}

}  // namespace brigade::rpc
