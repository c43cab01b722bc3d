#include "brigade/ps/client/server_statuses.h"

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::ps {

ServerStatuses::ServerStatuses(std::vector<ServerStatus> statuses, std::vector<std::string> names)
    : statuses_(std::move(statuses)), names_(std::move(names)) {}

bool ServerStatuses::is_any_ready() const {
  return std::ranges::any_of(statuses_, &ServerStatus::is_ready);
}

bool ServerStatuses::is_partly_ready() const {
  return is_any_ready() && !std::ranges::all_of(statuses_, &ServerStatus::is_created);
}

std::string ServerStatuses::not_ready() const {
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < statuses_.size(); ++i)
    if (!statuses_[i].is_ready) missing.push_back(names_[i]);
  return base::join(missing, ", ");
}

void ServerStatuses::check_whole() const {
  if (!is_partly_ready()) return;
  const auto empty = std::ranges::find(statuses_, false, &ServerStatus::is_created);
  const auto server = static_cast<std::size_t>(empty - statuses_.begin());
  throw Error(
      ErrorCode::kDataLoss, "The ", names_[server],
      " has no variables, and others have those of a job in progress: its folder was lost. Give it "
      "the folder, or empty the folders of all servers and start from a checkpoint.");
}

void ServerStatuses::check_job(const JobConfig& job) const {
  for (std::size_t i = 0; i < statuses_.size(); ++i) {
    check_state(!statuses_[i].is_created || statuses_[i].job == job,
                "The chief has configured the ", names_[i],
                " for another update mode, staleness, number of replicas, or rate that follows "
                "staleness than this worker: start all tasks with the same options.");
  }
}

}  // namespace brigade::ps
