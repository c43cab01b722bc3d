#include "brigade/distribute/pipeline/stage_devices.h"

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::distribute {

using machine::DeviceSpec;

StageDevices::StageDevices(std::vector<std::string> devices, std::vector<cluster::Task> tasks,
                           int pipelines, int chunks)
    : names_(std::move(devices)), tasks_(std::move(tasks)), chunks_(chunks) {
  for (const std::string& name : names_) devices_.push_back(DeviceSpec::parse(name));
  if (!tasks_.empty()) workers_ = static_cast<int>(tasks_.size()) / pipelines;
}

std::optional<StageDevices::Choice> StageDevices::choice(std::string_view layer,
                                                         const std::string& name) const {
  const DeviceSpec spec = DeviceSpec::parse(name);
  Choice choice;
  if (spec.task && workers_ > 1) choice.worker = worker_named(layer, name, spec);
  if (spec.type) choice.device = DeviceSpec{.type = spec.type, .index = spec.index.value_or(0)};
  if (!choice.worker && !choice.device) return std::nullopt;
  std::vector<int> workers;
  for (int stage = 0; stage < stages(); ++stage) {
    if (!is_on(stage, choice)) continue;
    if (std::ranges::find(workers, worker_of(stage)) == workers.end())
      workers.push_back(worker_of(stage));
  }
  if (workers.empty()) refuse(layer, name, "no stage of the pipeline is on that device");
  if (workers.size() > 1)
    refuse(layer, name, "several workers of the pipeline have that device: name the task as well");
  return choice;
}

/// Pipelines side by side have the same stages, so the task of any of them names them.
int StageDevices::worker_named(std::string_view layer, const std::string& name,
                               const DeviceSpec& spec) const {
  const auto found = std::ranges::find_if(tasks_, [&](const cluster::Task& task) {
    return task.index == *spec.task && (!spec.job || *spec.job == task.job);
  });
  if (found == tasks_.end()) refuse(layer, name, "the job has no such task");
  return static_cast<int>(found - tasks_.begin()) % workers_;
}

bool StageDevices::is_on(int stage, const Choice& choice) const {
  if (choice.worker && *choice.worker != worker_of(stage)) return false;
  return !choice.device || *choice.device == devices_[static_cast<std::size_t>(stage)];
}

void StageDevices::refuse(std::string_view layer, const std::string& name,
                          std::string_view why) const {
  throw Error(ErrorCode::kInvalidArgument, "The layer ", base::quoted(layer),
              " is in a device scope of ", base::quoted(name), ", and ", why,
              ". The stages are on ", list(), ".");
}

std::string StageDevices::name_of(int stage) const {
  const std::string& device = names_[static_cast<std::size_t>(stage)];
  if (workers_ == 1) return device;
  const cluster::Task& task = tasks_[static_cast<std::size_t>(worker_of(stage))];
  return base::str_cat(cluster::to_string(task), "/", device);
}

std::string StageDevices::list() const {
  std::vector<std::string> names;
  for (int stage = 0; stage < stages(); ++stage) names.push_back(name_of(stage));
  return base::join(names, ", ");
}

}  // namespace brigade::distribute
