#pragma once

#include <optional>
#include <string>

#include "brigade/device/device_scope.h"

namespace brigade::slim::model_deploy {

struct DeploymentOptions {
  /// Copies of the model in this process, one per device.
  int num_clones = 1;
  /// Whether clones run on CPUs even if there are GPUs.
  bool clone_on_cpu = false;
  /// The index of this process among the processes of the training.
  int replica_id = 0;
  int num_replicas = 1;
  /// The number of tasks that hold variables; 0: they are in this process.
  int num_ps_tasks = 0;
  std::string worker_job_name = "worker";
  std::string ps_job_name = "ps";
};

/// The devices of a model's clones, variables, inputs and optimizer, as device names for
/// `with_device`. TensorFlow: slim's model_deploy.DeploymentConfig.
///
/// Thread-safety: a value; copies of one `variables_device()` share its round-robin counter.
class DeploymentConfig {
 public:
  /// Throws kInvalidArgument: `num_replicas` above 1 without parameter server tasks; with either,
  /// an empty job name; `replica_id` that is not below `num_replicas`; counts that are not
  /// positive, or a negative number of tasks.
  explicit DeploymentConfig(DeploymentOptions options = {});

  int num_clones() const { return options_.num_clones; }
  bool clone_on_cpu() const { return options_.clone_on_cpu; }
  int replica_id() const { return options_.replica_id; }
  int num_replicas() const { return options_.num_replicas; }
  int num_ps_tasks() const { return options_.num_ps_tasks; }

  /// "/job:worker" and "/job:ps"; empty without parameter server tasks.
  std::string worker_device() const;
  std::string ps_device() const;

  /// The device of clone `clone_index`: "/device:GPU:1", or "/device:CPU:0" on CPU, with the
  /// worker's job as prefix if there is one. For a single clone only the prefix, so "" means any
  /// device. Throws kInvalidArgument if `clone_index` is not below `num_clones`.
  std::string clone_device(int clone_index) const;
  /// The name scope of a clone: "clone_1"; "" for a single clone. Throws as `clone_device`.
  std::string clone_scope(int clone_index) const;
  /// The device on which gradients are summed and applied: the worker's CPU.
  std::string optimizer_device() const;
  std::string inputs_device() const;
  /// Where reads cache copies of variables; nothing without parameter server tasks, because the
  /// variables are then in this process.
  std::optional<std::string> caching_device() const;
  /// Places variables without an explicit device: on the CPU, or on the parameter server tasks in
  /// round-robin order, "/job:ps/task:1/device:CPU:0". Each call starts with task 0.
  device::DeviceFunction variables_device() const;

 private:
  void check_clone(int clone_index) const;
  DeploymentOptions options_;
};

}  // namespace brigade::slim::model_deploy
