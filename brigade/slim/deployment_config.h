#pragma once

#include <optional>
#include <string>

#include "brigade/device/device_scope.h"

namespace brigade::slim::model_deploy {

/// Whether clones run on CPUs even where there are GPUs.
enum class CloneOnCpu { kNo, kYes };

struct DeploymentOptions {
  /// Copies of the model in this process, one a device.
  int num_clones = 1;
  CloneOnCpu clone_on_cpu = CloneOnCpu::kNo;
  /// Which of the processes that train together this one is.
  int replica_id = 0;
  int num_replicas = 1;
  /// Tasks that hold variables; 0: they are in this process.
  int num_ps_tasks = 0;
  std::string worker_job_name = "worker";
  std::string ps_job_name = "ps";
};

/// Where the clones of a model, its variables, its inputs and its optimizer go, as device names for
/// `with_device`. TensorFlow: slim's model_deploy.DeploymentConfig.
///
/// Thread-safety: a value; copies of one `variables_device()` share its turns.
class DeploymentConfig {
 public:
  /// Throws kInvalidArgument: `num_replicas` above 1 without parameter-server tasks; with either,
  /// an empty job name; `replica_id` that is not below `num_replicas`; counts that are not
  /// positive, or a negative number of tasks.
  explicit DeploymentConfig(DeploymentOptions options = {});

  int num_clones() const { return options_.num_clones; }
  CloneOnCpu clone_on_cpu() const { return options_.clone_on_cpu; }
  int replica_id() const { return options_.replica_id; }
  int num_replicas() const { return options_.num_replicas; }
  int num_ps_tasks() const { return options_.num_ps_tasks; }

  /// "/job:worker" and "/job:ps"; empty without parameter-server tasks.
  std::string worker_device() const;
  std::string ps_device() const;

  /// Where clone `clone_index` computes: "/device:GPU:1", on CPU "/device:CPU:0", behind the worker
  /// where there is one. Of a single clone only that, so "" for any device. Throws kInvalidArgument
  /// if `clone_index` is not below `num_clones`.
  std::string clone_device(int clone_index) const;
  /// The name scope of a clone: "clone_1"; of a single one "". Throws as `clone_device`.
  std::string clone_scope(int clone_index) const;
  /// Where gradients are added up and applied: the worker's CPU.
  std::string optimizer_device() const;
  std::string inputs_device() const;
  /// Where reads keep a copy of variables; nothing without parameter-server tasks, as then the
  /// variables are near.
  std::optional<std::string> caching_device() const;
  /// Variables that no scope inside has placed: on the CPU, or on the parameter servers' tasks in
  /// turn, "/job:ps/task:1/device:CPU:0". Each call begins with task 0.
  device::DeviceFunction variables_device() const;

 private:
  void check_clone(int clone_index) const;
  DeploymentOptions options_;
};

}  // namespace brigade::slim::model_deploy
