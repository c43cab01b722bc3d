#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/cluster/task.h"

namespace brigade::cluster {

/// The addresses of all tasks of a cluster: for each job, its task indices and their addresses,
/// "host:port". Indices may have gaps, as in TensorFlow, where tasks come and go.
/// TensorFlow: tf.train.ClusterSpec.
///
/// Thread-safety: a value.
class ClusterSpec {
 public:
  using Tasks = std::map<int, std::string>;

  ClusterSpec() = default;
  /// Throws kInvalidArgument, naming the task, for an address that is not "host:port" (a port from
  /// 1 to 65535, IPv6 in brackets), one that two tasks have, a negative index, and a job without a
  /// name or tasks.
  explicit ClusterSpec(std::map<std::string, Tasks> jobs);
  /// The same with tasks counted from 0: {"worker", {"a:1", "b:1"}}.
  explicit ClusterSpec(const std::map<std::string, std::vector<std::string>>& jobs);

  bool is_empty() const { return jobs_.empty(); }
  /// Names of the jobs, sorted.
  std::vector<std::string> jobs() const;
  bool has(const Task& task) const;
  /// 0 for an unknown job.
  int num_tasks(std::string_view job) const;
  /// Throws kNotFound, naming the known jobs.
  std::vector<int> task_indices(std::string_view job) const;
  /// Throws kNotFound, naming the known jobs or indices.
  const std::string& task_address(const Task& task) const;
  const std::map<std::string, Tasks>& as_map() const { return jobs_; }

  /// The tasks that train together, in the order of their ranks: the chief first, then the workers
  /// by index. Parameter servers and evaluators are not among them.
  std::vector<Task> training_tasks() const;

  /// As JSON in the form that `TF_CONFIG` has under "cluster".
  std::string to_json() const;

  friend bool operator==(const ClusterSpec&, const ClusterSpec&) = default;

 private:
  std::map<std::string, Tasks> jobs_;
};

/// Reads a cluster as flags write it: "chief=a:1;worker=b:1,c:1". Throws kInvalidArgument, quoting
/// the part that is wrong, and as `ClusterSpec` does. Thread-safety: a pure function.
ClusterSpec parse_cluster_flag(std::string_view text);

/// Reads a task as flags write it: "worker:1", "chief" for its only task, or "/job:worker/task:1".
/// Throws kInvalidArgument, quoting the text. Thread-safety: a pure function.
Task parse_task_flag(std::string_view text);

}  // namespace brigade::cluster
