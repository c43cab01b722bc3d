#include "brigade/optim/lars.h"

#include <ATen/ops/add.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

#include <memory>

#include "brigade/base/error.h"
#include "brigade/optim/clipping.h"
#include "brigade/optim/update_scalars.h"

namespace brigade::optim {

namespace {

/// A scalar on the tensor's device. On the CPU its bits do not depend on the number of threads; on
/// others it is not read, so nothing waits for it.
at::Tensor norm_of(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return at::scalar_tensor(global_norm({&tensor, 1}), at::kDouble);
  return at::linalg_vector_norm(tensor, 2, {}, /*keepdim=*/false, at::kFloat);
}

class LarsRule final : public UpdateRule {
 public:
  explicit LarsRule(const Lars& options) : options_(options) {}

  std::string_view name() const override { return "lars"; }
  const std::vector<SlotSpec>& slots() const override { return slots_; }
  Hyperparameters defaults() const override {
    return {.learning_rate = options_.learning_rate, .weight_decay = options_.weight_decay};
  }
  bool needs_whole_variables() const override { return true; }

  void apply(const UpdateArguments& a, const Hyperparameters& h) const override {
    for (std::size_t i = 0; i < a.parameters.size(); ++i)
      update(a.parameters[i], a.gradients[i], a.slots[0][i], h, a.on_device);
  }

  io::StateTree config() const override {
    io::StateTree tree = io::StateTree::dict();
    tree["name"] = name();
    tree["learning_rate"] = options_.learning_rate;
    tree["momentum"] = options_.momentum;
    tree["weight_decay"] = options_.weight_decay;
    tree["trust_coefficient"] = options_.trust_coefficient;
    tree["epsilon"] = options_.epsilon;
    return tree;
  }

 private:
  void update(const at::Tensor& parameter, const at::Tensor& gradient, const at::Tensor& velocity,
              const Hyperparameters& h, const DeviceScalars& on_device) const {
    at::Tensor change = at::add(gradient, parameter, h.weight_decay);
    if (h.layer_adaptation) change.mul_(trust(parameter, gradient, h.weight_decay));
    velocity.mul_(options_.momentum);
    if (on_device.rate.defined()) {
      velocity.add_(times_rate(change, on_device));
    } else {
      velocity.add_(change, h.learning_rate);
    }
    parameter.sub_(velocity);
  }

  at::Tensor trust(const at::Tensor& parameter, const at::Tensor& gradient,
                   double weight_decay) const {
    const at::Tensor of_parameter = norm_of(parameter);
    const at::Tensor of_gradient = norm_of(gradient);
    const at::Tensor trust = of_parameter * options_.trust_coefficient /
                             (of_gradient + of_parameter * weight_decay + options_.epsilon);
    return at::where((of_parameter > 0).logical_and(of_gradient > 0), trust, 1.0);
  }

  const Lars options_;
  const std::vector<SlotSpec> slots_{{.name = "momentum_buffer"}};
};

void check_lars(std::string_view field, double value, bool is_allowed, std::string_view allowed) {
  check_argument(is_allowed, "Lars: ", field, " is ", value, " and must be ", allowed, ".");
}

}  // namespace

UpdateRulePtr Lars::rule() const {
  check_lars("learning_rate", learning_rate, learning_rate >= 0, "at least 0");
  check_lars("momentum", momentum, momentum >= 0 && momentum < 1, "in [0, 1)");
  check_lars("weight_decay", weight_decay, weight_decay >= 0, "at least 0");
  check_lars("trust_coefficient", trust_coefficient, trust_coefficient > 0, "above 0");
  check_lars("epsilon", epsilon, epsilon >= 0, "at least 0");
  return std::make_shared<LarsRule>(*this);
}

}  // namespace brigade::optim
