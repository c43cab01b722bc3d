#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace brigade::cluster {

/// Names one process of a cluster: its job and its index there. TensorFlow: a task.
///
/// Thread-safety: a value.
struct Task {
  /// "chief", "worker", "ps", "ps_replica" or "evaluator"; a user's own job may have any other
  /// name.
  std::string job = "worker";
  int index = 0;

  friend bool operator==(const Task&, const Task&) = default;
  friend auto operator<=>(const Task&, const Task&) = default;
};

/// "/job:worker/task:1", as in messages and device names.
std::string to_string(const Task& task);

/// Reads "/job:worker/task:1". Throws kInvalidArgument, quoting the text, for any other form.
Task parse_task(std::string_view text);

}  // namespace brigade::cluster
