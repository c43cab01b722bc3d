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

/// An operation of libtorch that ran.
struct Operation {
  enum class Kind {
    kFunction,  ///< one that was called: "aten::addmm", with those that it calls inside
    kBackward   ///< a function of a backward pass: "AddmmBackward0"
  };
  std::string name;
  Kind kind = Kind::kFunction;
  /// Whose it is; -1: no replica's.
  std::int64_t replica = -1;
  /// libtorch's number of the thread.
  std::uint64_t thread = 0;
  /// By the recorder's clock.
  std::chrono::nanoseconds begin{0};
  std::chrono::nanoseconds duration{0};
  /// What ties both kinds to one node of a replica's autograd graph; -1: to none.
  std::int64_t sequence = -1;
};

struct OperationRecord {
  /// In the order in which they ended.
  std::vector<Operation> operations;
  /// [replica]: where its first backward pass began; behind it is the whole graph of what the
  /// replica computed.
  std::map<std::int64_t, std::shared_ptr<torch::autograd::Node>> backward_roots;
};

/// Records libtorch's operations on this thread, in the replicas that `Strategy::run` starts from
/// it, and in their backward passes. While none records, operations cost what they always do. On
/// GPUs an operation's time is that of queueing it.
///
///   OperationRecorder recorder(clock);
///   recorder.start();
///   strategy.run(...);
///   const OperationRecord record = recorder.stop();
///
/// Thread-safety: one thread, the same for all calls. Several recorders may record at once and need
/// not end in order.
class OperationRecorder {
 public:
  /// `clock` must outlive this.
  explicit OperationRecorder(const base::Clock& clock);
  ~OperationRecorder();
  OperationRecorder(const OperationRecorder&) = delete;
  OperationRecorder& operator=(const OperationRecorder&) = delete;

  /// Nothing if it records already.
  void start();
  /// Gives out what was recorded; nothing if it does not record.
  OperationRecord stop();

 private:
  class Sink;
  class Listeners;
  const base::Clock& clock_;
  std::shared_ptr<Sink> sink_;  // null: does not record
};

}  // namespace brigade::train
