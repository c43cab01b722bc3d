#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "brigade/base/ambient.h"
#include "brigade/comm/reduction_tree.h"

namespace brigade::variables {

class DeferredGradient;
using DeferredGradientPtr = std::shared_ptr<const DeferredGradient>;

/// A summand of a variable's gradient: its value, or how to compute it. At most one is set; with
/// neither it adds nothing.
struct GradientPart {
  at::Tensor value = {};
  DeferredGradientPtr deferred = nullptr;

  bool is_defined() const { return value.defined() || deferred != nullptr; }
};

/// The gradient of a variable that a layer's backward pass returns without computing it: everything
/// that is needed to compute it later. Nothing in a backward pass waits for the gradient of a
/// weight: it can be computed when a processor is idle, or together with those of other replicas,
/// so that only their sum is written to memory.
///
/// It owns copies of its inputs, or tensors that nobody else can change, so a program may reuse its
/// tensors when the backward pass is over.
///
/// Thread-safety: immutable. The functions may be called by any thread, outside of replicas too,
/// with any state of libtorch's thread (grad mode, autocast, generators), and use the libtorch
/// threads of their caller.
class DeferredGradient {
 public:
  /// `variable`: the leaf tensor that it is the gradient of.
  explicit DeferredGradient(at::Tensor variable) : variable_(std::move(variable)) {}
  virtual ~DeferredGradient() = default;
  DeferredGradient(const DeferredGradient&) = delete;
  DeferredGradient& operator=(const DeferredGradient&) = delete;

  const at::Tensor& variable() const { return variable_; }
  /// What it keeps in memory until it is destroyed, besides the variable.
  virtual std::int64_t bytes() const = 0;

  /// A new tensor of the variable's shape and dtype, in any layout: to the bit what the backward
  /// pass would have returned. May be called several times.
  virtual at::Tensor compute() const = 0;
  /// Whether it is computed together with the gradient of another variable, taken before it:
  /// `compute` costs nothing once that one was computed.
  virtual bool is_by_product() const { return false; }

  /// Writes the sum of `parts` to `sum`, block by block in the caches, if it knows how for all of
  /// them; false: it does not, and has written nothing. `this` is one of the parts, which are those
  /// of `tree`, whose order of additions it keeps: the bits are those of `compute` of each part and
  /// the additions after it. Values and `sum` are contiguous and of the variable's shape; `sum` may
  /// be one of the values.
  virtual bool try_sum(std::span<const GradientPart> /*parts*/, const comm::ReductionTree& /*tree*/,
                       const at::Tensor& /*sum*/) const {
    return false;
  }

 private:
  const at::Tensor variable_;
};

/// Takes uncomputed gradients from a backward pass. The code that runs the pass sets it
/// (`kGradientDeferralSlot`), and must use what it takes, since autograd then has no gradient of
/// the variable. So it takes only gradients that nothing else sees: the variable has one use in the
/// graph and no hooks, and the pass is not one inside of another.
///
/// Thread-safety: the thread that runs the backward pass.
class GradientDeferral {
 public:
  virtual ~GradientDeferral() = default;

  /// Whether the node whose backward function runs now may defer the gradient of `variable`, which
  /// keeps `bytes` in memory until it is computed.
  virtual bool takes(const at::Tensor& variable, std::int64_t bytes) = 0;
  /// Takes it; only after `takes`. The backward function then returns an undefined tensor for this
  /// variable.
  virtual void take(DeferredGradientPtr gradient) = 0;
};

inline constexpr base::AmbientSlot<GradientDeferral> kGradientDeferralSlot{
    base::AmbientIndex::kGradientDeferral};

/// For the backward function of a layer: what takes the gradient of `variable` uncomputed; null if
/// it must be computed now. `bytes`: the `DeferredGradient::bytes` of the gradient. Do not call it
/// if the gradient must have a graph itself (grad mode is enabled in backward).
///
///   if (GradientDeferral* deferral = variables::gradient_deferral(weight, bytes)) {
///     deferral->take(std::make_shared<const ConvolutionGradient>(weight, ...));
///     return {input_gradient, at::Tensor()};
///   }
inline GradientDeferral* gradient_deferral(const at::Tensor& variable, std::int64_t bytes) {
  GradientDeferral* const deferral = kGradientDeferralSlot.get();
  return deferral != nullptr && deferral->takes(variable, bytes) ? deferral : nullptr;
}

}  // namespace brigade::variables
