#include "brigade/optim/adam.h"

#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>

#include "brigade/base/error.h"
#include "brigade/optim/update_scalars.h"
#include "brigade/optim/whole_vectors.h"

namespace brigade::optim {

namespace {

void check_range(std::string_view rule, std::string_view field, double value, bool allowed,
                 std::string_view values) {
  check_argument(allowed, rule, ": ", field, " is ", value, " and must be ", values, ".");
}

template <class Options>
void validate(std::string_view rule, const Options& o) {
  check_range(rule, "learning_rate", o.learning_rate, o.learning_rate >= 0, "at least 0");
  check_range(rule, "beta1", o.beta1, o.beta1 >= 0 && o.beta1 < 1, "in [0, 1)");
  check_range(rule, "beta2", o.beta2, o.beta2 >= 0 && o.beta2 < 1, "in [0, 1)");
  check_range(rule, "epsilon", o.epsilon, o.epsilon >= 0, "at least 0");
  check_range(rule, "weight_decay", o.weight_decay, o.weight_decay >= 0, "at least 0");
}

/// Adam and AdamW differ only in the fused kernels, which take the rate as a number or a tensor.
template <class Options, auto kKernel, auto kKernelOnDevice>
class AdamRule final : public UpdateRule {
 public:
  AdamRule(std::string_view name, const Options& options) : name_(name), options_(options) {}

  std::string_view name() const override { return name_; }
  const std::vector<SlotSpec>& slots() const override { return slots_; }
  Hyperparameters defaults() const override {
    return {.learning_rate = options_.learning_rate, .weight_decay = options_.weight_decay};
  }

  void apply(const UpdateArguments& a, const Hyperparameters& h) const override {
    const at::Tensor step = step_of(a);
    const auto update = [&](auto kernel, const UpdateArguments& r, const auto& rate) {
      const std::vector<at::Tensor> steps(r.parameters.size(), step);
      kernel(r.parameters, r.gradients, r.slots[0], r.slots[1], {}, steps, rate, options_.beta1,
             options_.beta2, h.weight_decay, options_.epsilon, /*amsgrad=*/false,
             /*maximize=*/false, {}, {});
    };
    update_in_whole_vectors(a, [&](const UpdateArguments& r) {
      if (a.on_device.rate.defined()) return update(kKernelOnDevice, r, a.on_device.rate);
      update(kKernel, r, h.learning_rate);
    });
  }

  io::StateTree config() const override {
    io::StateTree tree = io::StateTree::dict();
    tree["name"] = std::string(name_);
    tree["learning_rate"] = options_.learning_rate;
    tree["beta1"] = options_.beta1;
    tree["beta2"] = options_.beta2;
    tree["epsilon"] = options_.epsilon;
    tree["weight_decay"] = options_.weight_decay;
    return tree;
  }

 private:
  const std::string_view name_;
  const Options options_;
  const std::vector<SlotSpec> slots_{{.name = "exp_avg"}, {.name = "exp_avg_sq"}};
};

using Kernel = void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                        at::TensorList, at::TensorList, double, double, double, double, double,
                        bool, bool, const std::optional<at::Tensor>&,
                        const std::optional<at::Tensor>&);
using KernelOnDevice = void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                                at::TensorList, at::TensorList, const at::Tensor&, double, double,
                                double, double, bool, bool, const std::optional<at::Tensor>&,
                                const std::optional<at::Tensor>&);

}  // namespace

UpdateRulePtr Adam::rule() const {
  validate("Adam", *this);
  return std::make_shared<AdamRule<Adam, static_cast<Kernel>(at::_fused_adam_),
                                   static_cast<KernelOnDevice>(at::_fused_adam_)>>("adam", *this);
}

UpdateRulePtr AdamW::rule() const {
  validate("AdamW", *this);
  return std::make_shared<AdamRule<AdamW, static_cast<Kernel>(at::_fused_adamw_),
                                   static_cast<KernelOnDevice>(at::_fused_adamw_)>>("adamw", *this);
}

}  // namespace brigade::optim
