#include "brigade/optim/adagrad.h"

#include <ATen/ops/_fused_adagrad.h>

#include "brigade/base/error.h"
#include "brigade/optim/update_scalars.h"
#include "brigade/optim/whole_vectors.h"

namespace brigade::optim {

namespace {

class AdagradRule final : public UpdateRule {
 public:
  explicit AdagradRule(const Adagrad& options)
      : options_(options), slots_{{.name = "sum", .initial = options.initial_accumulator_value}} {}

  std::string_view name() const override { return "adagrad"; }
  const std::vector<SlotSpec>& slots() const override { return slots_; }
  Hyperparameters defaults() const override {
    return {.learning_rate = options_.learning_rate, .weight_decay = options_.weight_decay};
  }
  RowUpdates row_updates() const override { return RowUpdates::kExact; }

  void apply(const UpdateArguments& a, const Hyperparameters& h) const override {
    const at::Tensor step = step_of(a);
    const auto update = [&](const UpdateArguments& r, const auto& rate) {
      const std::vector<at::Tensor> steps(r.parameters.size(), step);
      at::_fused_adagrad_(r.parameters, r.gradients, r.slots[0], steps, rate,
                          options_.learning_rate_decay, h.weight_decay, options_.epsilon,
                          /*maximize=*/false);
    };
    update_in_whole_vectors(a, [&](const UpdateArguments& r) {
      if (a.on_device.rate.defined()) return update(r, a.on_device.rate);
      update(r, h.learning_rate);
    });
  }

  io::StateTree config() const override {
    io::StateTree tree = io::StateTree::dict();
    tree["name"] = std::string("adagrad");
    tree["learning_rate"] = options_.learning_rate;
    tree["learning_rate_decay"] = options_.learning_rate_decay;
    tree["weight_decay"] = options_.weight_decay;
    tree["initial_accumulator_value"] = options_.initial_accumulator_value;
    tree["epsilon"] = options_.epsilon;
    return tree;
  }

 private:
  const Adagrad options_;
  const std::vector<SlotSpec> slots_;
};

void check_at_least_zero(std::string_view field, double value) {
  check_argument(value >= 0, "Adagrad: ", field, " is ", value, " and must be at least 0.");
}

}  // namespace

UpdateRulePtr Adagrad::rule() const {
  check_at_least_zero("learning_rate", learning_rate);
  check_at_least_zero("learning_rate_decay", learning_rate_decay);
  check_at_least_zero("weight_decay", weight_decay);
  check_at_least_zero("initial_accumulator_value", initial_accumulator_value);
  check_at_least_zero("epsilon", epsilon);
  check_argument(epsilon + initial_accumulator_value > 0,
                 "Adagrad: epsilon and initial_accumulator_value are both 0, so an element without "
                 "a gradient would be divided by 0.");
  return std::make_shared<AdagradRule>(*this);
}

}  // namespace brigade::optim
