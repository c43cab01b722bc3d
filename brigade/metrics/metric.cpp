#include "brigade/metrics/metric.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "brigade/base/copy_bytes.h"
#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/distribute/strategy.h"
#include "brigade/variables/variable_store.h"

namespace brigade::metrics {

namespace {

template <class Slots>
std::string unique_name(const std::string& base_name, const Slots& slots) {
  const variables::VariableStore* store = variables::kStoreSlot.get();
  if (store == nullptr) return base_name;
  const auto is_free = [&](const std::string& name) {
    return std::all_of(slots.begin(), slots.end(), [&](const auto& slot) {
      return store->is_free(base::str_cat(name, "/", slot.name));
    });
  };
  std::string name = base_name;
  for (int suffix = 1; !is_free(name); ++suffix) name = base::str_cat(base_name, "_", suffix);
  return name;
}

variables::Variable make_sum(const std::string& name, at::IntArrayRef shape) {
  return variables::make_variable({.name = name,
                                   .initial = at::zeros(shape, at::kDouble),
                                   .trainable = false,
                                   .synchronization = variables::Synchronization::kOnRead,
                                   .aggregation = variables::Aggregation::kSum});
}

io::ArrayLeaf to_array(const at::Tensor& doubles) {
  const at::Tensor host = doubles.cpu().contiguous();
  io::ArrayLeaf array{.dtype = "F64", .shape = host.sizes().vec(), .bytes = {}};
  array.bytes.resize(host.nbytes());
  base::copy_bytes(array.bytes.data(), host.const_data_ptr(), host.nbytes());
  return array;
}

at::Tensor from_array(const io::ArrayLeaf& array, const variables::Variable& sum) {
  check_argument(array.dtype == "F64" && at::IntArrayRef(array.shape) == sum.shape(),
                 "The saved state of '", sum.name(), "' is ", array.dtype, " [",
                 base::join(array.shape, ", "), "]; it must be F64 ", sum.shape(), ".");
  at::Tensor tensor = at::empty(sum.shape(), at::kDouble);
  if (!array.bytes.empty())
    base::copy_bytes(tensor.mutable_data_ptr(), array.bytes.data(), tensor.nbytes());
  return tensor;
}

void set_to_zero(std::span<const variables::Variable> sums) {
  for (const variables::Variable& sum : sums) sum.assign(at::zeros(sum.shape(), at::kDouble));
}

io::StateTree saved(const std::vector<std::string>& slots,
                    std::span<const variables::Variable> sums) {
  io::StateTree state = io::StateTree::dict();
  for (std::size_t i = 0; i < sums.size(); ++i) state[slots[i]] = to_array(sums[i].read());
  return state;
}

void restore_sums(const std::vector<std::string>& slots, std::span<const variables::Variable> sums,
                  const io::StateTree& state) {
  std::vector<at::Tensor> values;
  for (std::size_t i = 0; i < sums.size(); ++i)
    values.push_back(from_array(state.as_array(slots[i]), sums[i]));
  set_to_zero(sums);
  // The whole sum goes to the first replica: equal parts for all replicas would not add up to the
  // same bits.
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i].component(0).copy_(values[i]);
    sums[i].mark_updated(0);
  }
}

}  // namespace

Metric::Metric(const std::string& name, const std::vector<Slot>& slots)
    : name_(unique_name(name, slots)) {
  std::vector<std::string> names;
  for (const Slot& slot : slots) {
    names.push_back(slot.name);
    sums_.push_back(make_sum(base::str_cat(name_, "/", slot.name), slot.shape));
  }
  state_ = std::make_shared<distribute::CreatedState>(distribute::CreatedState{
      .name = name_,
      .save = [names, sums = sums_] { return saved(names, sums); },
      .restore = [names,
                  sums = sums_](const io::StateTree& state) { restore_sums(names, sums, state); },
      .variables = sums_});
  if (const distribute::Strategy* strategy = distribute::current_strategy())
    strategy->created_states()->add(state_);
}

void Metric::add(std::size_t i, const at::Tensor& value) const {
  const at::NoGradGuard no_grad;
  const at::Tensor& own = sums_[i].local();
  own.add_(value.to(own.device(), at::kDouble));
}

void Metric::reset_state() const {
  set_to_zero(sums_);
}

std::vector<at::Tensor> Metric::sums() const {
  std::vector<at::Tensor> sums;
  for (const variables::Variable& each : sums_) sums.push_back(each.read().cpu());
  return sums;
}

void Metric::merge(std::span<const at::Tensor> sums) const {
  const at::NoGradGuard no_grad;
  check_argument(sums.size() == sums_.size(), "Metric '", name_, "' is merged with ", sums.size(),
                 " sums, and it has ", sums_.size(), ".");
  for (std::size_t i = 0; i < sums.size(); ++i)
    check_argument(sums[i].scalar_type() == at::kDouble && sums[i].sizes() == sums_[i].shape(),
                   "Sum '", sums_[i].name(), "' is merged with ",
                   at::toString(sums[i].scalar_type()), " ", sums[i].sizes(),
                   "; it must be Double ", sums_[i].shape(), ".");
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const at::Tensor& own = sums_[i].component(0);
    own.add_(sums[i].to(own.device()));
    sums_[i].mark_updated(0);
  }
}

io::StateTree Metric::save() const {
  return state_->save();
}

void Metric::restore(const io::StateTree& state) const {
  state_->restore(state);
}

void PredictionMetric::update_state(const at::Tensor& labels, const at::Tensor& predictions,
                                    const std::optional<at::Tensor>& sample_weight) const {
  const at::NoGradGuard no_grad;
  if (labels.numel() == 0 && predictions.numel() == 0) return;
  update(labels.detach().to(predictions.device()), predictions.detach(), sample_weight);
}

}  // namespace brigade::metrics
