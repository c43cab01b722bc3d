#include "brigade/optim/rms_prop.h"

#include <ATen/Parallel.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addcmul.h>

#include <memory>

#include "brigade/base/error.h"
#include "brigade/optim/rms_prop_kernel.h"
#include "brigade/optim/update_scalars.h"

namespace brigade::optim {

std::string_view to_string(RmsPropForm form) {
  return form == RmsPropForm::kTensorFlow ? "tensorflow" : "pytorch";
}

namespace {

/// One range with its gradient and slots; undefined: the rule has no such slot.
struct RmsPropRange {
  at::Tensor parameter;
  at::Tensor gradient;
  at::Tensor mean_square;
  at::Tensor mean;
  at::Tensor velocity;
};

/// Changes by `change`, with a rate on the device.
void change_by(const at::Tensor& change, const RmsPropRange& r, const RmsProp& o,
               const DeviceScalars& on_device) {
  if (!r.velocity.defined()) {
    r.parameter.sub_(times_rate(change, on_device));
  } else if (o.form == RmsPropForm::kTensorFlow) {
    r.velocity.mul_(o.momentum).add_(times_rate(change, on_device));
    r.parameter.sub_(r.velocity);
  } else {
    r.velocity.mul_(o.momentum).add_(change);
    r.parameter.sub_(times_rate(r.velocity, on_device));
  }
}

/// On any device, in several operations.
void update_by_operations(const RmsPropRange& r, const RmsProp& o, const Hyperparameters& h,
                          const DeviceScalars& on_device) {
  const bool is_inside = o.form == RmsPropForm::kTensorFlow;
  const at::Tensor gradient =
      h.weight_decay != 0 ? at::add(r.gradient, r.parameter, h.weight_decay) : r.gradient;
  r.mean_square.mul_(o.decay).addcmul_(gradient, gradient, 1 - o.decay);
  if (o.centered) r.mean.mul_(o.decay).add_(gradient, 1 - o.decay);
  at::Tensor divisor =
      o.centered ? at::addcmul(r.mean_square, r.mean, r.mean, -1) : r.mean_square.clone();
  if (o.centered) divisor.clamp_min_(0);  // rounding may give less
  if (is_inside) divisor.add_(o.epsilon);
  divisor.sqrt_();
  if (!is_inside) divisor.add_(o.epsilon);
  if (on_device.rate.defined()) return change_by(gradient.div(divisor), r, o, on_device);
  if (!r.velocity.defined()) {
    r.parameter.addcdiv_(gradient, divisor, -h.learning_rate);
    return;
  }
  r.velocity.mul_(o.momentum).addcdiv_(gradient, divisor, is_inside ? h.learning_rate : 1.0);
  r.parameter.sub_(r.velocity, is_inside ? 1.0 : h.learning_rate);
}

template <class Scalar>
Scalar* elements_of(const at::Tensor& slot) {
  return slot.defined() ? slot.mutable_data_ptr<Scalar>() : nullptr;
}

template <class Scalar>
void update_on_cpu(const RmsPropRange& r, const RmsProp& o, const Hyperparameters& h) {
  constexpr std::int64_t kGrain = 1 << 14;
  const RmsPropElements<Scalar> elements{.parameter = elements_of<Scalar>(r.parameter),
                                         .gradient = r.gradient.const_data_ptr<Scalar>(),
                                         .mean_square = elements_of<Scalar>(r.mean_square),
                                         .mean = elements_of<Scalar>(r.mean),
                                         .velocity = elements_of<Scalar>(r.velocity)};
  const RmsPropNumbers numbers{.learning_rate = h.learning_rate,
                               .decay = o.decay,
                               .momentum = o.momentum,
                               .epsilon = o.epsilon,
                               .weight_decay = h.weight_decay};
  const auto update = o.form == RmsPropForm::kTensorFlow ? update_in_tensorflow_form<Scalar>
                                                         : update_in_pytorch_form<Scalar>;
  at::parallel_for(0, r.parameter.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    update(elements, begin, end, numbers);
  });
}

void update_range(const RmsPropRange& range, const RmsProp& o, const Hyperparameters& h,
                  const DeviceScalars& on_device) {
  const at::ScalarType dtype = range.parameter.scalar_type();
  const bool has_kernel = range.parameter.is_cpu() && (dtype == at::kFloat || dtype == at::kDouble);
  if (!has_kernel || on_device.rate.defined()) return update_by_operations(range, o, h, on_device);
  dtype == at::kFloat ? update_on_cpu<float>(range, o, h) : update_on_cpu<double>(range, o, h);
}

class RmsPropRule final : public UpdateRule {
 public:
  explicit RmsPropRule(const RmsProp& options)
      : options_(options), slots_{{.name = "square_avg", .initial = options.initial_mean_square}} {
    if (options.momentum != 0) slots_.push_back({.name = "momentum_buffer"});
    if (options.centered) slots_.push_back({.name = "grad_avg"});
  }

  std::string_view name() const override { return "rmsprop"; }
  const std::vector<SlotSpec>& slots() const override { return slots_; }
  Hyperparameters defaults() const override {
    return {.learning_rate = options_.learning_rate, .weight_decay = options_.weight_decay};
  }

  void apply(const UpdateArguments& a, const Hyperparameters& h) const override {
    for (std::size_t i = 0; i < a.parameters.size(); ++i) {
      RmsPropRange range{.parameter = a.parameters[i],
                         .gradient = a.gradients[i],
                         .mean_square = a.slots[0][i],
                         .mean = {},
                         .velocity = {}};
      if (options_.momentum != 0) range.velocity = a.slots[1][i];
      if (options_.centered) range.mean = a.slots.back()[i];
      update_range(range, options_, h, a.on_device);
    }
  }

  io::StateTree config() const override {
    io::StateTree tree = io::StateTree::dict();
    tree["name"] = name();
    tree["learning_rate"] = options_.learning_rate;
    tree["decay"] = options_.decay;
    tree["momentum"] = options_.momentum;
    tree["epsilon"] = options_.epsilon;
    tree["weight_decay"] = options_.weight_decay;
    tree["initial_mean_square"] = options_.initial_mean_square;
    tree["centered"] = options_.centered;
    tree["form"] = to_string(options_.form);
    return tree;
  }

 private:
  const RmsProp options_;
  std::vector<SlotSpec> slots_;
};

void check_rms_prop(std::string_view field, double value, bool is_allowed,
                    std::string_view allowed) {
  check_argument(is_allowed, "RmsProp: ", field, " is ", value, " and must be ", allowed, ".");
}

}  // namespace

UpdateRulePtr RmsProp::rule() const {
  constexpr std::string_view kNotNegative = "at least 0";
  check_rms_prop("learning_rate", learning_rate, learning_rate >= 0, kNotNegative);
  check_rms_prop("decay", decay, decay >= 0 && decay < 1, "in [0, 1)");
  check_rms_prop("momentum", momentum, momentum >= 0 && momentum < 1, "in [0, 1)");
  check_rms_prop("epsilon", epsilon, epsilon > 0,
                 "above 0: an element without gradients would be divided by 0");
  check_rms_prop("weight_decay", weight_decay, weight_decay >= 0, kNotNegative);
  check_rms_prop("initial_mean_square", initial_mean_square, initial_mean_square >= 0,
                 kNotNegative);
  return std::make_shared<RmsPropRule>(*this);
}

}  // namespace brigade::optim
