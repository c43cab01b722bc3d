#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "brigade/base/ambient.h"
#include "brigade/variables/deferred_gradient.h"

namespace torch::autograd {
struct Node;
}

namespace brigade::distribute {

/// While it exists, gradients may be taken uncomputed from a backward pass: those of variables that
/// have one use in the graph of the loss, and no hooks. (Of other variables autograd adds
/// gradients, or passes them to hooks.) Passes that run inside this one (recomputed activations)
/// compute all of theirs. Costs nothing if no layer defers a gradient.
///
/// Thread-safety: the thread that runs the pass.
class DeferredPass final : public variables::GradientDeferral {
 public:
  struct Policy {
    /// Whether to take the gradient of variable `index`, which keeps `bytes` in memory.
    std::function<bool(std::size_t index, std::int64_t bytes)> wants;
    /// Called during the pass with each gradient that was taken. Returns whether it keeps it;
    /// otherwise `DeferredPass::gradient` returns it. May be empty.
    std::function<bool(std::size_t index, const variables::DeferredGradientPtr& gradient)> taken =
        {};
  };

  /// The pass from `loss` to `variables`, which outlive this; not for gradients of gradients.
  DeferredPass(const at::Tensor& loss, std::span<const at::Tensor> variables, Policy policy);
  ~DeferredPass() override;
  DeferredPass(const DeferredPass&) = delete;
  DeferredPass& operator=(const DeferredPass&) = delete;

  bool takes(const at::Tensor& variable, std::int64_t bytes) override;
  void take(variables::DeferredGradientPtr gradient) override;

  /// The gradient of variable `index`, if it was taken; then autograd has none. Null otherwise.
  const variables::DeferredGradientPtr& gradient(std::size_t index) const { return kept_[index]; }

 private:
  /// Of a variable in the graph.
  struct Uses {
    std::size_t index = 0;
    int count = 0;
    const torch::autograd::Node* user = nullptr;  // the last that was found
    bool is_taken = false;
  };
  void find_uses();

  const at::Tensor loss_;
  const std::span<const at::Tensor> variables_;
  const Policy policy_;
  std::vector<variables::DeferredGradientPtr> kept_;  // [variable]
  std::unordered_map<const at::TensorImpl*, Uses> uses_;
  bool has_uses_ = false;
  int pass_;  // autograd's number of it
  const unsigned hook_;
  const base::AmbientScope<variables::GradientDeferral> scope_;
};

}  // namespace brigade::distribute
