#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "brigade/distribute/optimizer/gradient_buckets.h"
#include "brigade/distribute/optimizer/gradient_synchronizer.h"
#include "brigade/ps/client/parameter_client.h"
#include "brigade/ps/variable_parts.h"

namespace brigade::ps {

/// Sends gradients to the parameter servers while backward still computes others.
///
/// As soon as all replicas have a variable's gradient, a thread adds them by the tree and sends
/// the sum, from the last variable to the first, which is the order in which backward completes
/// them. The variables are those that the last push had gradients of. When all replicas apply, the
/// push is completed (`sum`, `part`), or given up if it has other gradients. So servers get every
/// push as one, and the same bits.
///
/// Only for replicas on the CPU, and for pushes without gradients of rows.
///
/// Thread-safety: `ready` and `cancel` by each replica's thread; the rest by one thread while no
/// backward runs. Uses the client on its own thread only while replicas compute.
class EarlyGradients final : public distribute::GradientReadyListener {
 public:
  /// `parts`: of the `variables` variables, in the order of the client's placement. They and the
  /// client outlive this. Pushes of less than `least_bytes` are not sent early.
  EarlyGradients(std::size_t variables, const std::vector<VariablePart>& parts,
                 ParameterClient& client, int replicas, std::size_t least_bytes);
  /// Gives up what was sent.
  ~EarlyGradients() override;

  bool is_enabled() const override { return !order_.empty(); }
  void begin(int /*replica*/) override {}
  void ready(int replica, std::size_t variable, const at::Tensor& gradient) override;
  /// The pass, or its push, has failed: until the next push or `reset` nothing is sent early. When
  /// this returns, the client is not in use.
  void cancel(int replica) noexcept override;

  /// Nothing more is sent early in this step: its push comes next. Gives up what was sent if the
  /// step was cancelled.
  void stop();
  /// The sum of the variable's gradients, or its part, that was sent; undefined if none was.
  const at::Tensor& sum(std::size_t variable) const { return sums_[variable]; }
  const at::Tensor& part(std::size_t part) const { return sent_[part]; }
  /// The push of `gradients` (of the parts) was made: the next one is expected to have the same.
  void expect(std::span<const at::Tensor> gradients);
  /// Gives up what was sent, and is ready for a step.
  void reset() noexcept;

 private:
  void prepare();
  void stop_sender() noexcept;
  void send(std::size_t bucket);
  void send_parts(std::size_t variable);

  const std::vector<VariablePart>& parts_;
  ParameterClient& client_;
  const std::size_t least_bytes_;
  std::vector<std::vector<std::size_t>> parts_of_;     // [variable]: indices of its parts
  std::vector<std::size_t> order_;                     // variables that are sent; empty: none are
  std::vector<std::optional<std::size_t>> bucket_of_;  // [variable]: where it is in order_
  std::vector<std::vector<at::Tensor>> delivered_;     // [variable][replica]
  std::vector<at::Tensor> sums_;                       // [variable]: sent
  std::vector<at::Tensor> sent_;                       // [part]
  std::atomic<bool> has_failed_ = false;               // a pass of this step, or its push
  distribute::BucketProgress progress_;
  // Declared after what its thread uses, so that the thread ends first.
  distribute::GradientReducer sender_;
};

}  // namespace brigade::ps
