#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "brigade/concurrency/barrier.h"
#include "brigade/device/captured_graph.h"
#include "brigade/device/stream.h"
#include "brigade/distribute/replica_context.h"
#include "brigade/distribute/step_capture.h"

namespace brigade::distribute {

/// The step of this process's replicas, which are on one GPU, captured as one graph. For
/// `CompiledStep`.
///
/// Replica 0's stream begins the capture. The others' streams join it by waiting for an event of
/// that stream, their threads queue their steps, and exchanges between replicas become edges of the
/// graph; in the end replica 0's stream waits for all others. In a replay replica 0 does
/// everything: it copies all replicas' inputs, queues the graph, and copies the results. The other
/// replicas only seed their random numbers.
///
/// Thread-safety: `run` by each replica in its thread; all else outside of replicas.
class ReplicaCapture {
 public:
  using Next = StepCapture::Next;
  using TensorList = std::vector<at::Tensor>;
  /// A replica's step with these inputs. Returns its results.
  using Step = std::function<TensorList(std::span<const at::Tensor> inputs)>;

  ReplicaCapture(int replicas, int warmup, device::GraphFactory make);

  /// What the call with these tensors does: [replica], as many of each.
  Next plan(const std::vector<TensorList>& given);
  /// Makes the call, if `plan` did not return kEager: captures `step` first if it said so. `random`
  /// is the replica's generator, seeded for this step. All replicas call it. If the step cannot be
  /// captured, it throws in all of them, and nothing has been computed.
  void run(ReplicaContext& context, const at::Generator& random, const Step& step);
  /// The results of the replicas, one after another.
  TensorList take_results() { return std::move(results_); }
  /// Whether `run` has thrown because the step cannot be captured. All calls are eager from then
  /// on.
  bool has_failed() const { return has_failed_; }

  void give_up(const std::string& reason) { capture_.give_up(reason); }
  const std::string& eager_reason() const { return capture_.eager_reason(); }
  bool is_ruled_out() const { return capture_.is_ruled_out(); }

 private:
  void capture(ReplicaContext& context, const Step& step);
  void begin(c10::Device device);
  void end(c10::Device device);
  /// Calls `work`. If it throws, the capture has failed, and replicas that wait for this one are
  /// released.
  void attempt(const ReplicaContext& context, const std::function<void()>& work);
  std::span<const at::Tensor> inputs_of(int replica) const;

  StepCapture capture_;
  /// Replicas that have failed arrive at it, too, so nothing has to release it.
  concurrency::Barrier barrier_;
  Next next_ = Next::kEager;
  TensorList given_;  // of all replicas, one after another
  TensorList results_;
  // [replica], written by its thread before a barrier:
  std::vector<at::Generator> random_;
  std::vector<TensorList> results_of_;
  std::vector<device::StreamFence> joined_;
  device::StreamFence forked_;  // replica 0's
  std::atomic<bool> has_failed_ = false;
  std::mutex mutex_;     // guards the next
  std::string failure_;  // the first
};

}  // namespace brigade::distribute
