#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/cluster/task.h"
#include "brigade/machine/device_spec.h"

namespace brigade::distribute {

/// The devices of a pipeline's stages, as device scopes name them: "cpu:1", and with several
/// workers "/job:worker/task:1/cpu:0".
///
/// Thread-safety: a value.
class StageDevices {
 public:
  /// What a device scope has chosen: each part that is set is the same for the stages it means.
  struct Choice {
    std::optional<int> worker;  ///< its number in its pipeline
    std::optional<machine::DeviceSpec> device;
  };

  /// `devices`: [stage], such as "cpu:0", the first ones repeated if each device has several
  /// (`chunks`). `tasks`: all workers of the job, by rank, of which `pipelines` train side by side;
  /// empty: this process has all stages.
  explicit StageDevices(std::vector<std::string> devices, std::vector<cluster::Task> tasks = {},
                        int pipelines = 1, int chunks = 1);

  int stages() const { return static_cast<int>(devices_.size()); }
  /// What the scopes around `layer` have chosen by `name`; null if it names neither a device nor,
  /// with several workers, a task. Throws kInvalidArgument, naming the layer and what there is, if
  /// no stage is on such a device, and if several workers have one and no task is named.
  std::optional<Choice> choice(std::string_view layer, const std::string& name) const;
  bool is_on(int stage, const Choice& choice) const;
  /// "cpu:0, cpu:1".
  std::string list() const;

 private:
  int worker_of(int stage) const {
    const int devices = stages() / chunks_;
    return stage % devices / (devices / workers_);
  }
  std::string name_of(int stage) const;
  [[noreturn]] void refuse(std::string_view layer, const std::string& name,
                           std::string_view why) const;
  int worker_named(std::string_view layer, const std::string& name,
                   const machine::DeviceSpec& spec) const;

  std::vector<std::string> names_;            // [stage]
  std::vector<machine::DeviceSpec> devices_;  // [stage]
  std::vector<cluster::Task> tasks_;          // of the job, by rank
  int workers_ = 1;                           // of a pipeline
  int chunks_ = 1;
};

}  // namespace brigade::distribute
