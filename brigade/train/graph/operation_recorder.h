#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "brigade/base/clock.h"

namespace torch::autograd {
struct Node;
}

namespace brigade::train {

/// An operation that libtorch executed.
struct Operation {
  enum class Kind {
    kFunction,  ///< a called function: "aten::addmm"; functions that it calls are operations, too
    kBackward   ///< a node of a backward pass: "AddmmBackward0"
  };
  std::string name;
  Kind kind = Kind::kFunction;
  /// The replica; -1: outside of replicas.
  std::int64_t replica = -1;
  /// libtorch's number of the thread.
  std::uint64_t thread = 0;
  /// In the time of the recorder's clock.
  std::chrono::nanoseconds begin{0};
  std::chrono::nanoseconds duration{0};
  /// The sequence number that identifies the node of the autograd graph in both kinds; -1: no node.
  std::int64_t sequence = -1;
};

struct OperationRecord {
  /// In the order of their ends.
  std::vector<Operation> operations;
  /// [replica]: the root of its first backward pass; the autograd graph of the replica can be
  /// reached from it.
  std::map<std::int64_t, std::shared_ptr<torch::autograd::Node>> backward_roots;
};

/// Records libtorch's operations on this thread, in the replicas that `Strategy::run` starts from
/// it, and in their backward passes. There is no overhead while nothing is recorded. On GPUs the
/// time of an operation is the time of its launch.
///
///   OperationRecorder recorder(clock);
///   recorder.start();
///   strategy.run(...);
///   const OperationRecord record = recorder.stop();
///
/// Thread-safety: all calls on the same thread. Several recorders may record at the same time, and
/// may stop in any order.
class OperationRecorder {
 public:
  /// `clock` must outlive this.
  explicit OperationRecorder(const base::Clock& clock);
  ~OperationRecorder();
  OperationRecorder(const OperationRecorder&) = delete;
  OperationRecorder& operator=(const OperationRecorder&) = delete;

  /// Does nothing if it already records.
  void start();
  /// Returns the recorded operations; an empty record if it does not record.
  OperationRecord stop();

 private:
  class Sink;
  class Listeners;
  const base::Clock& clock_;
  std::shared_ptr<Sink> sink_;  // null: not recording
};

}  // namespace brigade::train
