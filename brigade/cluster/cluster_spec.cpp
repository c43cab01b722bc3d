#include "brigade/cluster/cluster_spec.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/address.h"

namespace brigade::cluster {
namespace {

using Jobs = std::map<std::string, ClusterSpec::Tasks>;

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, "The cluster is not valid: " + why);
}

std::string checked_address(const Task& task, const std::string& address) {
  try {
    return base::lower_case(to_string(parse_address(address)));  // as hosts' names are compared
  } catch (const Error& error) {
    refuse(base::str_cat("of ", task, ", ", error.what()));
  }
}

void check_tasks(const std::string& job, const ClusterSpec::Tasks& tasks,
                 std::map<std::string, Task>& taken) {
  for (const auto& [index, address] : tasks) {
    const Task task{job, index};
    if (index < 0) refuse(base::str_cat("the index of ", task, " is negative."));
    const auto [other, is_new] = taken.emplace(checked_address(task, address), task);
    if (!is_new) {
      const bool both_lead = other->second == Task{"chief", 0} && task == Task{"worker", 0};
      refuse(base::str_cat(other->second, " and ", task, " have the same address, ", address,
                           both_lead ? "; the chief is itself the first worker: list it once."
                                     : "; give each task its own port."));
    }
  }
}

Jobs checked(Jobs jobs) {
  std::map<std::string, Task> taken;
  for (const auto& [job, tasks] : jobs) {
    if (job.empty()) refuse("a job has no name.");
    if (job.size() > base::kMostQuoted) {
      refuse(base::str_cat("the job's name ", base::quoted(job), " is too long; it may have ",
                           base::kMostQuoted, " characters."));
    }
    if (job.find('/') != std::string::npos) {
      refuse(base::str_cat("the job's name ", base::quoted(job), " has a '/' in it."));
    }
    if (tasks.empty())
      refuse(base::str_cat("the job ", base::quoted(job), " has no tasks; leave it out."));
    check_tasks(job, tasks, taken);
  }
  return jobs;
}

Jobs numbered(const std::map<std::string, std::vector<std::string>>& jobs) {
  Jobs result;
  for (const auto& [job, addresses] : jobs) {
    ClusterSpec::Tasks& tasks = result[job];
    for (const std::string& address : addresses) {
      tasks.emplace(static_cast<int>(tasks.size()), address);
    }
  }
  return result;
}

bool is_dense(const ClusterSpec::Tasks& tasks) {
  return !tasks.empty() && tasks.rbegin()->first == static_cast<int>(tasks.size()) - 1;
}

ClusterSpec::Tasks tasks_of(std::string_view addresses) {
  ClusterSpec::Tasks tasks;
  for (const std::string& address : base::split(addresses, ',')) {
    tasks.emplace(static_cast<int>(tasks.size()), base::trim(address));
  }
  return tasks;
}

}  // namespace

ClusterSpec::ClusterSpec(std::map<std::string, Tasks> jobs) : jobs_(checked(std::move(jobs))) {}

ClusterSpec::ClusterSpec(const std::map<std::string, std::vector<std::string>>& jobs)
    : ClusterSpec(numbered(jobs)) {}

std::vector<std::string> ClusterSpec::jobs() const {
  std::vector<std::string> names;
  for (const auto& [job, tasks] : jobs_) names.push_back(job);
  return names;
}

bool ClusterSpec::has(const Task& task) const {
  const auto job = jobs_.find(task.job);
  return job != jobs_.end() && job->second.contains(task.index);
}

int ClusterSpec::num_tasks(std::string_view job) const {
  const auto found = jobs_.find(std::string(job));
  return found == jobs_.end() ? 0 : static_cast<int>(found->second.size());
}

std::vector<int> ClusterSpec::task_indices(std::string_view job) const {
  const auto found = jobs_.find(std::string(job));
  if (found == jobs_.end()) {
    throw Error(ErrorCode::kNotFound, "No such job in the cluster: ", base::quoted(job),
                "; there is ", base::listed(jobs(), ", "), ".");
  }
  std::vector<int> indices;
  for (const auto& [index, address] : found->second) indices.push_back(index);
  return indices;
}

const std::string& ClusterSpec::task_address(const Task& task) const {
  if (has(task)) return jobs_.at(task.job).at(task.index);
  throw Error(ErrorCode::kNotFound, "No task with index ", task.index, " in the job ",
              base::quoted(task.job), "; its tasks are ",
              base::listed(task_indices(task.job), ", "), ".");
}

std::vector<Task> ClusterSpec::training_tasks() const {
  std::vector<Task> tasks;
  for (const char* job : {"chief", "worker"}) {
    if (num_tasks(job) == 0) continue;
    for (const int index : task_indices(job)) tasks.push_back({job, index});
  }
  return tasks;
}

std::string ClusterSpec::to_json() const {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [job, tasks] : jobs_) {
    for (const auto& [index, address] : tasks) {
      if (is_dense(tasks)) {
        json[job].push_back(address);
      } else {
        json[job][std::to_string(index)] = address;
      }
    }
  }
  return json.dump();
}

ClusterSpec parse_cluster_flag(std::string_view text) {
  std::map<std::string, ClusterSpec::Tasks> jobs;
  for (const std::string& part : base::split(text, ';')) {
    const std::size_t equals = part.find('=');
    const std::string job(base::trim(part.substr(0, equals)));
    if (equals == std::string::npos || job.empty()) {
      throw Error(ErrorCode::kInvalidArgument, base::quoted(part), " in the cluster ",
                  base::quoted(text), " is not job=addresses; ",
                  "write a cluster as chief=a:2222;worker=b:2222,c:2222.");
    }
    check_argument(jobs.emplace(job, tasks_of(part.substr(equals + 1))).second, "The cluster ",
                   base::quoted(text), " has the job ", base::quoted(job),
                   " twice; list its addresses once, separated by commas.");
  }
  return ClusterSpec(std::move(jobs));
}

Task parse_task_flag(std::string_view text) {
  if (text.starts_with('/')) return parse_task(text);
  try {
    const std::size_t colon = text.find(':');
    const std::string_view index = colon == std::string_view::npos ? "0" : text.substr(colon + 1);
    return parse_task(base::str_cat("/job:", text.substr(0, colon), "/task:", index));
  } catch (const Error&) {
    throw Error(ErrorCode::kInvalidArgument, base::quoted(text),
                " names no task; write it as worker:1.");
  }
}

}  // namespace brigade::cluster
