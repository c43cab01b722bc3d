#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "brigade/device/captured_graph.h"

namespace brigade::distribute {

/// The captured graph of a compiled step, with the tensors that it reads and writes, and the
/// decision whether a call may replay it. For `CompiledStep`.
///
/// Thread-safety: one thread at a time.
class StepCapture {
 public:
  enum class Next { kEager, kCapture, kReplay };

  /// The host's part of what the step does (an optimizer counts its updates), which a capture
  /// leaves out and each replay does.
  struct HostWork {
    /// Whether the captured work is still what the step would do; null: always.
    std::function<bool()> is_current;
    std::function<void()> after_replay;
  };

  /// The first `warmup` calls run eagerly.
  explicit StepCapture(int warmup, device::GraphFactory make = device::make_captured_graph);

  /// What the next call with these tensors does. A step whose host's work is not current is
  /// captured again.
  Next plan(const std::vector<at::Tensor>& given);
  /// Begins to capture on the calling thread's stream of `device`: the step must read the tensors
  /// that are returned, which have the values of `given`. False: there is nothing to capture with.
  bool begin(c10::Device device, const std::vector<at::Tensor>& given,
             std::span<const at::Generator> random);
  const std::vector<at::Tensor>& inputs() const { return inputs_; }
  /// For what the step calls while it is captured.
  void add_host_work(HostWork work) { host_work_.push_back(std::move(work)); }
  /// Ends the capture of a step with these results, of which nothing has been computed yet.
  void end(std::vector<at::Tensor> results);
  /// Computes the results for `given`, and does the host's work. The results are copies, without a
  /// history for autograd.
  std::vector<at::Tensor> replay(const std::vector<at::Tensor>& given);
  /// Ends a capture that has failed, or rules one out: all calls are eager from now on.
  void give_up(const std::string& reason) noexcept;

  /// Why the last call was eager; empty: it was not.
  const std::string& eager_reason() const { return reason_; }
  bool is_ruled_out() const { return is_ruled_out_; }

 private:
  void forget() noexcept;

  const int warmup_;
  const device::GraphFactory make_;
  int calls_ = 0;
  bool is_ruled_out_ = false;
  bool is_capturing_ = false;
  std::string reason_;
  std::unique_ptr<device::CapturedGraph> graph_;  // null before the first capture
  std::vector<at::Tensor> inputs_;
  std::vector<at::Tensor> results_;
  std::vector<HostWork> host_work_;
};

}  // namespace brigade::distribute
