#include "brigade/distribute/optimizer/gradient_scaler.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>

#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::distribute {

namespace {

constexpr double kSmallestScale = 1.0 / (1 << 24);

void check(bool holds, const char* field, double value, const char* allowed) {
  check_argument(holds, "GradientScalerOptions::", field, " is ", value, "; expected ", allowed,
                 ".");
}

bool is_scale(double scale) {
  return scale > 0.0 && scale <= std::numeric_limits<float>::max();
}

}  // namespace

GradientScaler::GradientScaler(const GradientScalerOptions& options)
    : options_(options), scale_(options.initial_scale) {
  check(is_scale(options.initial_scale), "initial_scale", options.initial_scale,
        "a positive float32");
  check(options.growth_factor >= 1.0 && std::isfinite(options.growth_factor), "growth_factor",
        options.growth_factor, "1 or more");
  check(options.backoff_factor > 0.0 && options.backoff_factor < 1.0, "backoff_factor",
        options.backoff_factor, "a number between 0 and 1");
  check(options.growth_interval >= 1, "growth_interval",
        static_cast<double>(options.growth_interval), "1 or more");
}

void GradientScaler::update(Outcome outcome) {
  if (outcome == Outcome::kOverflow) {
    const double less = scale_ * options_.backoff_factor;
    if (less < kSmallestScale) {
      throw Error(ErrorCode::kAborted, "Gradients are not finite even with the loss scale ", scale_,
                  ": the loss or the weights are infinite or NaN. Train with a lower "
                  "learning rate, or in bf16 or full precision.");
    }
    scale_ = less;
    updates_since_change_ = 0;
    return;
  }
  if (++updates_since_change_ < options_.growth_interval) return;
  updates_since_change_ = 0;
  if (is_scale(scale_ * options_.growth_factor)) scale_ *= options_.growth_factor;
}

io::StateTree GradientScaler::save() const {
  io::StateTree state = io::StateTree::dict();
  state["scale"] = scale_;
  state["updates_since_change"] = updates_since_change_;
  return state;
}

void GradientScaler::restore(const io::StateTree& saved) {
  const double scale = saved.as_double("scale");
  const std::int64_t updates = saved.as_int64("updates_since_change");
  check_argument(is_scale(scale) && updates >= 0, "A gradient scaler was saved with the scale ",
                 scale, " and ", updates, " updates; both must be positive.");
  scale_ = scale;
  updates_since_change_ = updates;
}

bool are_finite(std::span<const at::Tensor> gradients) {
  const at::NoGradGuard no_grad;
  std::map<std::tuple<c10::DeviceType, c10::DeviceIndex, at::ScalarType>, std::vector<at::Tensor>>
      groups;
  for (const at::Tensor& gradient : gradients) {
    if (!gradient.defined() || gradient.numel() == 0) continue;
    const at::Tensor values = gradient.is_sparse() ? gradient._values() : gradient;
    if (values.numel() > 0)
      groups[{values.device().type(), values.device().index(), values.scalar_type()}].push_back(
          values.detach());
  }
  for (const auto& [key, values] : groups) {
    // The largest element: one pass that writes nothing. It is NaN if any element is.
    const auto norms = at::_foreach_norm(values, std::numeric_limits<double>::infinity());
    if (!at::isfinite(at::stack(norms)).all().item<bool>()) return false;
  }
  return true;
}

}  // namespace brigade::distribute
