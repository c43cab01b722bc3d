#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/ps/parameter_service.h"
#include "brigade/ps/server/job_config.h"
#include "brigade/ps/store/parameter_store.h"
#include "brigade/ps/store/rate_divisor.h"
#include "brigade/ps/store/store_records.h"
#include "brigade/ps/store/store_updates.h"
#include "brigade/ps/store/update_record.h"

/// Gradients that come to a store, and the updates that they make.
namespace brigade::ps {
namespace {

/// Copies that nobody else changes.
std::vector<checkpoint::NamedTensor> copies_of(std::span<const checkpoint::NamedTensor> tensors) {
  std::vector<checkpoint::NamedTensor> copies;
  for (const auto& [name, tensor] : tensors)
    copies.push_back({name, tensor.detach().clone(at::MemoryFormat::Contiguous)});
  return copies;
}

}  // namespace

using coordination::PushVerdict;

/// In the updates of a push, and in its record, which is encoded already.
void ParameterStore::divide_rates(std::int64_t divisor, const at::Tensor& recorded,
                                  Updates& updates) {
  recorded.fill_(divisor);
  for (Updates::Update& each : updates.updates)
    each.hyperparameters = divided(each.hyperparameters, divisor);
}

PushVerdict ParameterStore::push(const coordination::PushId& id,
                                 std::span<const checkpoint::NamedTensor> gradients,
                                 std::span<const RowGradient> rows, Time deadline) {
  const BegunPush begun = begin_push(id, gradients, std::nullopt, rows);
  wait_committed(begun.record, deadline);
  return begun.verdict;
}

ParameterStore::BegunPush ParameterStore::begin_push(
    const coordination::PushId& id, std::span<const checkpoint::NamedTensor> gradients,
    std::optional<std::int64_t> read_at, std::span<const RowGradient> rows,
    const std::function<void()>& write_log) {
  for (const checkpoint::NamedTensor& each : gradients) check_recordable(each);
  for (const auto& [name, indices, values] : rows) {
    check_recordable({name, indices});
    check_recordable({name, values});
  }
  if (read_at.value_or(0) < 0)
    throw PushRefusedError(ErrorCode::kInvalidArgument,
                           base::str_cat("A push was computed with the values of step ", *read_at,
                                         "; steps count from 0."));
  const UpdateRecord record = push_record(id, gradients, rows);
  const RecordedGradients kept = recorded_gradients(record);
  UpdateRecord logged = record;
  const at::Tensor divisor = is_staleness_aware(job()) ? add_rate_divisor(logged) : at::Tensor();
  io::BytePieces bytes = encode_update_in_pieces(logged);  // outside of the lock: it may be long
  check_fits(bytes.size());
  Updates updates;
  BegunPush begun;
  {
    const concurrency::MutexLock lock(order_);
    check_usable();
    check_created();
    check_gradients(kept.dense, kept.rows);
    begun.verdict = state_.ledger.judge(id);
    if (begun.verdict == PushVerdict::kGap || begun.verdict == PushVerdict::kFenced) return begun;
    if (begun.verdict == PushVerdict::kApply) {
      begun.staleness = staleness_of(read_at);
      for (const auto& [name, gradient] : kept.dense)
        add_update(name, {{.values = gradient}}, state_.learning_rate, updates);
      for (const auto& [name, indices, values] : kept.rows)
        add_update(name, {{.values = values, .indices = indices}}, state_.learning_rate, updates);
      if (divisor.defined()) divide_rates(rate_divisor_of(begun.staleness), divisor, updates);
      updates.tickets.reserve(updates.updates.size());  // nothing throws once the log has the push
      StoreState next = state_;
      next.count_push(id);
      begun.record = commit(std::move(next), std::move(bytes));
      draw_tickets(updates);
    } else {
      begun.record = log_->appended();  // its record is among these, perhaps not yet on the disk
    }
  }
  try {
    write_log ? write_log() : log_->write_pending();
  } catch (...) {
    run(updates);  // a snapshot has the state, which counts the push
    throw;
  }
  run(updates);
  return begun;
}

PushVerdict ParameterStore::offer(const coordination::PushId& id, std::int64_t step, int index,
                                  std::span<const checkpoint::NamedTensor> gradients,
                                  std::span<const RowGradient> rows, Time deadline) {
  {
    const concurrency::MutexLock lock(order_);
    check_usable();
    check_created();
    check_gradients(gradients, rows);
    if (step < state_.step) {  // neither the log nor anybody else needs them
      gradients = {};
      rows = {};
    }
  }
  const auto kept =
      std::make_shared<const std::vector<checkpoint::NamedTensor>>(copies_of(gradients));
  const auto kept_rows = std::make_shared<const std::vector<RowGradient>>(copies_of(rows));
  io::BytePieces bytes = encode_update_in_pieces(offer_record(id, step, index, *kept, *kept_rows));
  check_fits(bytes.size());
  std::int64_t number = 0;
  PushVerdict verdict = PushVerdict::kApply;
  {
    const concurrency::MutexLock lock(order_);
    check_usable();
    verdict = state_.ledger.judge(id);
    if (verdict == PushVerdict::kGap || verdict == PushVerdict::kFenced) return verdict;
    if (verdict == PushVerdict::kApply) {
      check_offer(id.worker, step, index);
      StoreState next = state_;
      next.keep_offer(id, {.step = step,
                           .from = {.worker = id.worker, .index = index},
                           .gradients = kept,
                           .rows = kept_rows});
      number = commit(std::move(next), std::move(bytes));
    } else {
      number = log_->appended();
    }
  }
  wait_committed(number, deadline);
  return verdict;
}

void ParameterStore::apply(const coordination::StepDecision& decision, Time deadline) {
  const auto& contributions = decision.contributions;
  check_argument(
      std::ranges::adjacent_find(contributions, std::greater_equal<>()) == contributions.end(),
      "The gradients of step ", decision.step, " are not ordered by worker and index, each once.");
  check_argument(decision.learning_rate.value_or(0) >= 0, "The learning rate of step ",
                 decision.step, " is ", decision.learning_rate.value_or(0),
                 " and must be at least 0.");
  std::string bytes = encode_update(decision_record(decision));
  Updates updates;
  std::int64_t number = 0;
  {
    const concurrency::MutexLock lock(order_);
    check_usable();
    check_created();
    check_state(decision.step <= state_.step, "Step ", decision.step,
                " was decided, and the server is at step ", state_.step,
                ": the decisions between them come first.");
    if (decision.step == state_.step) {
      auto gradients = state_.offers.gradients_of(decision);
      for (auto& [name, each] : gradients)
        add_update(name, std::move(each), decision.learning_rate.value_or(state_.learning_rate),
                   updates);
      updates.tickets.reserve(updates.updates.size());
      StoreState next = state_;
      next.finish_step(decision);
      decision_record_ = commit(std::move(next), std::move(bytes));
      draw_tickets(updates);
    }
    number = decision_record_;  // of an earlier decision: its record is at most that
  }
  run(updates);
  wait_committed(number, deadline);
}

/// A pull may have seen pushes that a crash then undid.
std::optional<std::int64_t> ParameterStore::staleness_of(
    std::optional<std::int64_t> read_at) const {
  if (!read_at) return std::nullopt;
  return std::max<std::int64_t>(0, state_.step - *read_at);
}

void ParameterStore::add_update(std::string_view name, std::vector<VariableGradient> gradients,
                                double learning_rate, Updates& updates) const {
  Parameter& own = parameter(name);
  updates.updates.push_back({.parameter = &own,
                             .hyperparameters = own.hyperparameters(*state_.rule, learning_rate),
                             .gradients = std::move(gradients)});
  updates.rule = state_.rule;
}

void ParameterStore::draw_tickets(Updates& updates) const {
  for (const Updates::Update& each : updates.updates) updates.tickets.draw(*each.parameter);
}

void ParameterStore::run(Updates& updates) {
  change_values([&] {
    for (const Updates::Update& each : updates.updates) {
      // Before its ticket is due.
      const VariableGradient gradient = sum_by_tree(each.gradients, each.parameter->dtype());
      updates.tickets.use([&](Parameter& own, std::uint64_t ticket) {
        own.update(ticket, *updates.rule, gradient, each.hyperparameters);
      });
    }
  });
}

}  // namespace brigade::ps
