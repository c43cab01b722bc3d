#include "brigade/optim/moving_average.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <exception>
#include <set>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/comm/replica.h"

namespace brigade::optim {

using base::str_cat;
using variables::Synchronization;
using variables::Variable;

namespace {

/// The variable's value, without a copy if all components are equal.
at::Tensor value_of(const Variable& variable) {
  if (variable.synchronization() == Synchronization::kOnRead) return variable.read();
  return variable.component(0).detach();
}

void check_outside(std::string_view call) {
  check_state(comm::current_replica() == nullptr, call,
              " must be called outside of replicas: call it after Strategy::run.");
}

void validate(const MovingAverageOptions& options, std::span<const Variable> variables) {
  check_argument(options.decay >= 0 && options.decay <= 1, "ExponentialMovingAverage: decay is ",
                 options.decay, " and must be in [0, 1].");
  check_argument(!options.name.empty(), "ExponentialMovingAverage: the name is empty.");
  std::set<std::string> names;
  for (const Variable& variable : variables) {
    check_argument(c10::isFloatingType(variable.dtype()), "ExponentialMovingAverage: '",
                   variable.name(), "' has dtype ", variable.dtype(),
                   "; only floating variables have an average.");
    check_argument(names.insert(variable.name()).second, "ExponentialMovingAverage: '",
                   variable.name(), "' is given twice.");
  }
}

/// The saved tensor with this name, after checking its shape and dtype.
const at::Tensor& saved(const std::map<std::string, at::Tensor>& state, const std::string& name,
                        const at::Tensor& like) {
  const auto found = state.find(name);
  if (found == state.end()) {
    throw Error(ErrorCode::kNotFound, "ExponentialMovingAverage: no tensor '", name,
                "' to restore from.");
  }
  const at::Tensor& tensor = found->second;
  check_argument(tensor.defined() && tensor.sizes() == like.sizes() &&
                     tensor.scalar_type() == like.scalar_type(),
                 "ExponentialMovingAverage: the saved '", name,
                 "' has another shape or dtype than the average, which is ", like.sizes(), " ",
                 like.scalar_type(), ".");
  return tensor;
}

}  // namespace

ExponentialMovingAverage::ExponentialMovingAverage(MovingAverageOptions options,
                                                   std::span<const Variable> variables)
    : options_(std::move(options)), variables_(variables.begin(), variables.end()) {
  validate(options_, variables_);
  check_outside("ExponentialMovingAverage");
  const at::NoGradGuard no_grad;
  for (const Variable& variable : variables_) {
    const at::Tensor start =
        value_of(variable).to(comm::accumulation_dtype(variable.dtype()), /*non_blocking=*/false,
                              /*copy=*/true);
    averages_.push_back(options_.zero_debias ? at::zeros_like(start) : start);
  }
}

void ExponentialMovingAverage::update(std::optional<std::int64_t> num_updates) {
  check_outside("ExponentialMovingAverage::update");
  check_state(!is_swapped_,
              "ExponentialMovingAverage::update under AveragedWeights would average the averages: "
              "let the scope end first.");
  double decay = options_.decay;
  if (num_updates) {
    check_argument(*num_updates >= 0, "ExponentialMovingAverage::update: num_updates is ",
                   *num_updates, " and must be at least 0.");
    const auto n = static_cast<double>(*num_updates);
    decay = std::min(decay, (1 + n) / (10 + n));
  }
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    at::Tensor& average = averages_[i];
    average.lerp_(value_of(variables_[i]).to(average.options()), 1 - decay);
  }
  decay_product_ *= decay;
}

at::Tensor ExponentialMovingAverage::average(std::size_t i) const {
  const at::NoGradGuard no_grad;
  if (!options_.zero_debias) return averages_[i].clone();
  check_state(decay_product_ < 1, "The average of '", variables_[i].name(),
              "' is not defined before the first update with a decay below 1.");
  return averages_[i] / (1 - decay_product_);
}

at::Tensor ExponentialMovingAverage::average(const Variable& variable) const {
  return average(index_of(variable));
}

std::size_t ExponentialMovingAverage::index_of(const Variable& variable) const {
  const auto found = std::find_if(variables_.begin(), variables_.end(), [&](const Variable& each) {
    return each.name() == variable.name();
  });
  if (found == variables_.end()) {
    throw Error(ErrorCode::kNotFound, "ExponentialMovingAverage: '", variable.name(),
                "' is not averaged.");
  }
  return static_cast<std::size_t>(found - variables_.begin());
}

std::string ExponentialMovingAverage::average_name(const Variable& variable) const {
  return str_cat(variable.name(), "/", options_.name);
}

std::string ExponentialMovingAverage::state_name(std::size_t i) const {
  const std::string name = average_name(variables_[i]);
  return options_.zero_debias ? name + "/biased" : name;
}

std::map<std::string, at::Tensor> ExponentialMovingAverage::state() const {
  std::map<std::string, at::Tensor> state;
  for (std::size_t i = 0; i < averages_.size(); ++i) state[state_name(i)] = averages_[i].clone();
  state[keep_name()] = at::scalar_tensor(decay_product_, at::kDouble);
  return state;
}

void ExponentialMovingAverage::restore(const std::map<std::string, at::Tensor>& state) {
  check_outside("ExponentialMovingAverage::restore");
  std::vector<at::Tensor> restored;
  for (std::size_t i = 0; i < averages_.size(); ++i)
    restored.push_back(saved(state, state_name(i), averages_[i]));
  const at::Tensor product =
      saved(state, keep_name(), at::scalar_tensor(decay_product_, at::kDouble));
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < averages_.size(); ++i) averages_[i].copy_(restored[i]);
  decay_product_ = product.item<double>();
}

AveragedWeights::AveragedWeights(ExponentialMovingAverage& averages) : averages_(averages) {
  check_outside("AveragedWeights");
  check_state(!averages.is_swapped_, "AveragedWeights: the variables already hold the averages.");
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values;
  for (std::size_t i = 0; i < averages.variables_.size(); ++i)
    values.push_back(averages.average(i));
  for (const Variable& variable : averages.variables_) {
    const bool each = variable.synchronization() == Synchronization::kOnRead;
    auto& components = trained_.emplace_back();
    for (int replica = 0; replica < (each ? variable.num_components() : 1); ++replica)
      components.push_back(variable.component(replica).detach().clone());
  }
  averages.is_swapped_ = true;
  for (std::size_t i = 0; i < values.size(); ++i) averages.variables_[i].assign(values[i]);
}

AveragedWeights::~AveragedWeights() {
  averages_.is_swapped_ = false;
  try {
    put_back();
  } catch (const std::exception& error) {
    base::log_error("The trained weights could not be restored: ", error.what());
  }
}

void AveragedWeights::put_back() const {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    const Variable& variable = averages_.variables_[i];
    if (variable.synchronization() != Synchronization::kOnRead) {
      variable.assign(trained_[i].front());
      continue;
    }
    for (int replica = 0; replica < variable.num_components(); ++replica) {
      variable.component(replica).detach().copy_(trained_[i][static_cast<std::size_t>(replica)]);
      variable.mark_updated(replica);
    }
  }
}

}  // namespace brigade::optim
