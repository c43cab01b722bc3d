#include "brigade/train/metric.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include <sstream>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/variables/variable_store.h"

namespace brigade::train {

namespace {

std::string unique_name(const std::string& wanted) {
  const variables::VariableStore* store = variables::kStoreSlot.get();
  if (store == nullptr) return wanted;
  std::string name = wanted;
  for (int suffix = 1; !store->is_free(name + "/total"); ++suffix)
    name = base::str_cat(wanted, "_", suffix);
  return name;
}

variables::Variable make_sum(const std::string& name) {
  return variables::make_variable({.name = name,
                                   .initial = at::zeros({}, at::kDouble),
                                   .trainable = variables::Trainable::kNo,
                                   .synchronization = variables::Synchronization::kOnRead,
                                   .aggregation = variables::Aggregation::kSum});
}

at::Tensor count_of(std::int64_t count, const at::Tensor& like) {
  return at::scalar_tensor(static_cast<double>(count), like.options().dtype(at::kDouble));
}

}  // namespace

Metric::Metric(const std::string& name)
    : name_(unique_name(name)),
      total_(make_sum(name_ + "/total")),
      count_(make_sum(name_ + "/count")) {}

void Metric::add(const at::Tensor& total, const at::Tensor& count) const {
  const at::NoGradGuard no_grad;
  total_.local().add_(total.to(total_.local().device(), at::kDouble));
  count_.local().add_(count.to(count_.local().device(), at::kDouble));
}

double Metric::result() const {
  const double seen = count();
  return seen == 0 ? 0.0 : total_.read().item<double>() / seen;
}

double Metric::count() const {
  return count_.read().item<double>();
}

void Metric::reset_state() const {
  total_.assign(at::zeros({}, at::kDouble));
  count_.assign(at::zeros({}, at::kDouble));
}

void Mean::update_state(const at::Tensor& values, const std::optional<at::Tensor>& weights) const {
  const at::NoGradGuard no_grad;
  const at::Tensor doubles = values.detach().to(at::kDouble);
  if (!weights) return add(doubles.sum(), count_of(values.numel(), doubles));
  const at::Tensor each = weights->detach().to(doubles.device(), at::kDouble).expand_as(doubles);
  add((doubles * each).sum(), each.sum());
}

void SparseCategoricalAccuracy::update_state(const at::Tensor& labels,
                                             const at::Tensor& predictions) const {
  const at::NoGradGuard no_grad;
  if (predictions.dim() != 2 || labels.dim() != 1 || labels.size(0) != predictions.size(0)) {
    std::ostringstream text;
    text << "SparseCategoricalAccuracy: labels have shape " << labels.sizes() << " and predictions "
         << predictions.sizes() << "; they must be [N] and [N, classes].";
    throw Error(ErrorCode::kInvalidArgument, text.str());
  }
  if (labels.numel() == 0) return;
  const at::Tensor right = predictions.detach().argmax(1).eq(labels).sum();
  add(right, count_of(labels.size(0), right));
}

}  // namespace brigade::train
