#include "brigade/ps/store/parameter.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/index_select.h>

#include <utility>

#include "brigade/base/copy_bytes.h"
#include "brigade/base/error.h"
#include "brigade/optim/row_update.h"

namespace brigade::ps {

std::vector<at::Tensor> initial_slots(const at::Tensor& value, const optim::UpdateRule& rule) {
  std::vector<at::Tensor> slots;
  for (const optim::SlotSpec& slot : rule.slots())
    slots.push_back(at::full_like(value, slot.initial));
  return slots;
}

Parameter::Parameter(State state, Settings settings, const optim::UpdateRule& rule)
    : settings_(settings),
      state_(std::move(state)),
      sizes_(state_.value.sizes().vec()),
      dtype_(state_.value.scalar_type()),
      bytes_(state_.value.nbytes()) {
  if (is_trainable() && state_.slots.empty()) state_.slots = initial_slots(state_.value, rule);
}

optim::Hyperparameters Parameter::hyperparameters(const optim::UpdateRule& rule,
                                                  double learning_rate) const {
  return {.learning_rate = settings_.learning_rate.value_or(learning_rate),
          .weight_decay = settings_.weight_decay.value_or(rule.defaults().weight_decay)};
}

void Parameter::update(std::uint64_t ticket, const optim::UpdateRule& rule,
                       const at::Tensor& gradient, const optim::Hyperparameters& hyperparameters) {
  const concurrency::TicketMutex::Hold hold(order_, ticket);
  check_usable();
  has_failed_ = true;  // until the update is complete
  const at::NoGradGuard no_grad;
  optim::UpdateArguments arguments{.parameters = {state_.value},
                                   .gradients = {gradient},
                                   .slots = {},
                                   .step = state_.updates + 1};
  for (const at::Tensor& slot : state_.slots) arguments.slots.push_back({slot});
  if (state_.value.numel() > 0) rule.apply(arguments, hyperparameters);
  ++state_.updates;
  has_failed_ = false;
}

void Parameter::update_rows(std::uint64_t ticket, const optim::UpdateRule& rule,
                            const VariableGradient& gradient,
                            const optim::Hyperparameters& hyperparameters) {
  const concurrency::TicketMutex::Hold hold(order_, ticket);
  check_usable();
  has_failed_ = true;  // until the update is complete
  const at::NoGradGuard no_grad;
  optim::apply_rows(rule,
                    {.parameter = state_.value,
                     .slots = state_.slots,
                     .indices = gradient.indices,
                     .gradients = gradient.values,
                     .step = state_.updates + 1},
                    hyperparameters);
  ++state_.updates;
  has_failed_ = false;
}

void Parameter::update(std::uint64_t ticket, const optim::UpdateRule& rule,
                       const VariableGradient& gradient,
                       const optim::Hyperparameters& hyperparameters) {
  if (gradient.is_of_rows()) return update_rows(ticket, rule, gradient, hyperparameters);
  update(ticket, rule, gradient.values, hyperparameters);
}

void Parameter::assign(std::uint64_t ticket, State state) {
  const concurrency::TicketMutex::Hold hold(order_, ticket);
  check_usable();
  state_ = std::move(state);
}

Parameter::Reading Parameter::read(std::uint64_t ticket, at::Tensor copy,
                                   std::uint64_t whole) const {
  const concurrency::TicketMutex::Hold hold(order_, ticket);
  check_usable();
  if (state_.value.is_contiguous())
    base::copy_part_bytes(copy.mutable_data_ptr(), state_.value.const_data_ptr(), bytes_, whole);
  else
    copy.copy_(state_.value);
  return {.value = std::move(copy), .updates = state_.updates};
}

at::Tensor Parameter::read_rows(std::uint64_t ticket, const at::Tensor& indices,
                                at::Tensor copy) const {
  const concurrency::TicketMutex::Hold hold(order_, ticket);
  check_usable();
  at::index_select_out(copy, state_.value, 0, indices);
  return copy;
}

std::vector<std::int64_t> Parameter::sizes_of_rows(std::int64_t rows) const {
  std::vector<std::int64_t> sizes = sizes_;
  if (!sizes.empty()) sizes.front() = rows;
  return sizes;
}

std::uint64_t Parameter::row_bytes() const {
  if (sizes().empty() || sizes().front() == 0) return 0;
  return bytes_ / static_cast<std::uint64_t>(sizes().front());
}

Parameter::State Parameter::state(std::uint64_t ticket) const {
  const concurrency::TicketMutex::Hold hold(order_, ticket);
  check_usable();
  State copy{.value = state_.value.clone(), .slots = {}, .updates = state_.updates};
  for (const at::Tensor& slot : state_.slots) copy.slots.push_back(slot.clone());
  return copy;
}

void Parameter::check_usable() const {
  check_state(!has_failed_,
              "An update of this variable failed in the middle: restart the server, which then "
              "applies it from its log.");
}

}  // namespace brigade::ps
