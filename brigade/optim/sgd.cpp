#include "brigade/optim/sgd.h"

#include <ATen/ops/_fused_sgd.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/optim/whole_vectors.h"

namespace brigade::optim {

namespace {

class SgdRule final : public UpdateRule {
 public:
  explicit SgdRule(const Sgd& options) : options_(options) {
    if (options.momentum != 0) slots_.push_back({.name = "momentum_buffer"});
  }

  std::string_view name() const override { return "sgd"; }
  const std::vector<SlotSpec>& slots() const override { return slots_; }
  Hyperparameters defaults() const override {
    return {.learning_rate = options_.learning_rate, .weight_decay = options_.weight_decay};
  }

  RowUpdates row_updates() const override {
    return slots_.empty() ? RowUpdates::kExact : RowUpdates::kLazy;
  }

  void apply(const UpdateArguments& a, const Hyperparameters& h) const override {
    // Slots begin at zero, and momentum * 0 + gradient is the gradient: the first step needs no
    // separate case.
    const std::vector<at::Tensor> none;
    const auto update = [&](const UpdateArguments& r, const auto& rate) {
      at::_fused_sgd_(r.parameters, r.gradients, slots_.empty() ? none : r.slots[0], h.weight_decay,
                      options_.momentum, rate, /*dampening=*/0.0, options_.nesterov,
                      /*maximize=*/false, /*is_first_step=*/false);
    };
    update_in_whole_vectors(a, [&](const UpdateArguments& r) {
      if (a.on_device.rate.defined()) return update(r, a.on_device.rate);
      update(r, h.learning_rate);
    });
  }

  io::StateTree config() const override {
    io::StateTree tree = io::StateTree::dict();
    tree["name"] = std::string("sgd");
    tree["learning_rate"] = options_.learning_rate;
    tree["momentum"] = options_.momentum;
    tree["weight_decay"] = options_.weight_decay;
    tree["nesterov"] = options_.nesterov;
    return tree;
  }

 private:
  const Sgd options_;
  std::vector<SlotSpec> slots_;
};

}  // namespace

UpdateRulePtr Sgd::rule() const {
  using base::str_cat;
  check_argument(learning_rate >= 0, "Sgd: learning_rate is ", learning_rate,
                 " and must be at least 0.");
  check_argument(momentum >= 0 && momentum < 1, "Sgd: momentum is ", momentum,
                 " and must be in [0, 1).");
  check_argument(weight_decay >= 0, "Sgd: weight_decay is ", weight_decay,
                 " and must be at least 0.");
  check_argument(!nesterov || momentum > 0, "Sgd: Nesterov needs a momentum above 0.");
  return std::make_shared<SgdRule>(*this);
}

}  // namespace brigade::optim
