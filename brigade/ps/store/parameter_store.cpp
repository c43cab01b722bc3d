#include "brigade/ps/store/parameter_store.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/checkpoint/checkpoint.h"
#include "brigade/io/state_json.h"
#include "brigade/optim/rule_config.h"
#include "brigade/ps/store/record_parts.h"
#include "brigade/ps/store/store_records.h"
#include "brigade/ps/store/store_snapshot.h"
#include "brigade/ps/store/store_updates.h"
#include "brigade/ps/store/update_record.h"

namespace brigade::ps {

namespace {

std::uint64_t bytes_of_state(const NamedState& variable) {
  constexpr std::uint64_t kFields = 512;
  std::uint64_t bytes = variable.state.value.nbytes() + kFields + 6 * variable.name.size();
  for (const at::Tensor& slot : variable.state.slots)
    bytes += slot.nbytes() + kFields + 6 * variable.name.size();
  return bytes;
}

}  // namespace

ParameterStore::ParameterStore(std::shared_ptr<io::FileSystem> files, ParameterStoreOptions options)
    : files_(std::move(files)), options_(std::move(options)) {
  LoadedSnapshot loaded;
  std::int64_t covered = 0;
  if (const auto latest =
          checkpoint::find_latest_complete(files_, options_.folder / "snapshots").checkpoint) {
    loaded = load_snapshot(*latest);
    covered = latest->step();
  }
  std::uint64_t bytes = 0;
  LogReplay replay(loaded.state, loaded.parameters);
  log_ = std::make_unique<coordination::UpdateLog>(
      *files_, options_.folder / "log", covered,
      [&](std::int64_t, std::string_view record) {
        replay.apply(decode_update(record));
        bytes += record.size();
      },
      options_.log);
  const concurrency::MutexLock lock(order_);
  state_ = std::move(loaded.state);
  parameters_ = std::move(loaded.parameters);
  log_bytes_ = bytes;
}

ParameterStore::~ParameterStore() = default;

bool ParameterStore::has_failed() const {
  if (log_->has_failed()) return true;
  const concurrency::MutexLock lock(order_);
  return has_failed_;
}

bool ParameterStore::is_created() const {
  const concurrency::MutexLock lock(order_);
  return state_.rule != nullptr;
}

io::StateTree ParameterStore::job() const {
  const concurrency::MutexLock lock(order_);
  return state_.job;
}

bool ParameterStore::is_ready() const {
  const concurrency::MutexLock lock(order_);
  return state_.is_ready;
}

double ParameterStore::learning_rate() const {
  const concurrency::MutexLock lock(order_);
  return state_.learning_rate;
}

std::int64_t ParameterStore::step() const {
  const concurrency::MutexLock lock(order_);
  return state_.step;
}

std::optional<coordination::StepDecision> ParameterStore::last_decision() const {
  const concurrency::MutexLock lock(order_);
  return state_.last_decision;
}

ParameterStore::OfferState ParameterStore::offer_state(
    std::int64_t step, const coordination::Contribution& from) const {
  const concurrency::MutexLock lock(order_);
  if (step < state_.step) return OfferState::kDecided;
  return state_.offers.has(step, from) ? OfferState::kKept : OfferState::kMissing;
}

std::int64_t ParameterStore::incarnation(int worker) const {
  const concurrency::MutexLock lock(order_);
  return state_.ledger.incarnation(worker);
}

std::int64_t ParameterStore::waiting_records() const {
  const std::int64_t committed = log_->committed();  // first: it only grows
  return log_->appended() - committed;
}

std::uint64_t ParameterStore::log_bytes() const {
  const concurrency::MutexLock lock(order_);
  return log_bytes_;
}

std::vector<std::string> ParameterStore::names() const {
  const concurrency::MutexLock lock(order_);
  std::vector<std::string> names;
  for (const auto& [name, each] : parameters_) names.push_back(name);
  return names;
}

void ParameterStore::create(std::span<const Creation> variables, const optim::UpdateRulePtr& rule,
                            const io::StateTree& job, Time deadline) {
  check_creation(variables, options_.log.max_record_bytes);
  optim::rule_from_config(rule->config());  // throws before anything is in the log
  const concurrency::MutexLock one_at_a_time(creations_);
  std::int64_t number = 0;
  bool is_new = false;
  {
    const concurrency::MutexLock lock(order_);
    is_new = state_.rule == nullptr;
    if (!is_new && !has_same(variables, *rule, job))
      throw Error(ErrorCode::kAlreadyExists, "The server has ", parameters_.size(),
                  " variables, the rule ", io::to_json(state_.rule->config()).json, " and the job ",
                  io::to_json(state_.job).json,
                  ", and they differ from what is to be created: give it an empty folder, or start "
                  "the job with the model and optimizer it had.");
    number = log_->appended();
  }
  if (!is_new) return wait_committed(number, deadline);
  const CreationRecords records(variables, *rule, job, options_.log.max_record_bytes);
  ModelCreation creation;
  for (std::size_t i = 0; i < records.size(); ++i) {
    std::string bytes = encode_update(records.record(i));
    // Decoded: with tensors that nobody else changes, and as after a restart.
    std::optional<ServerModel> model = creation.add(decode_update(bytes));
    {
      const concurrency::MutexLock lock(order_);
      if (model) {
        StoreState next = state_;
        next.learning_rate = model->rule->defaults().learning_rate;
        next.rule = std::move(model->rule);
        next.job = std::move(model->job);
        number = commit(std::move(next), std::move(bytes));
        parameters_ = std::move(model->parameters);
      } else {
        number = log_change(std::move(bytes));
      }
    }
    wait_committed(number, deadline);
  }
}

void ParameterStore::assign(std::span<const NamedState> variables, std::int64_t step,
                            Time deadline) {
  check_argument(step >= 0, "The step is ", step, " and must be at least 0.");
  {
    const concurrency::MutexLock lock(order_);
    check_assignable(variables);
  }
  std::vector<std::uint64_t> bytes;
  for (const NamedState& each : variables) bytes.push_back(bytes_of_state(each));
  const auto parts = divide_by_bytes(bytes, part_bytes(options_.log.max_record_bytes));
  for (const RecordPart& part : parts) {
    const bool is_last = part == parts.back();
    assign_part(variables.subspan(part.begin, part.end - part.begin),
                is_last ? std::optional(step) : std::nullopt, deadline);
  }
}

void ParameterStore::assign_part(std::span<const NamedState> variables,
                                 std::optional<std::int64_t> step, Time deadline) {
  std::string bytes = encode_update(assign_record(variables, step));
  std::vector<NamedState> assigned = assigned_states(decode_update(bytes));  // copies
  ParameterTickets tickets;
  std::int64_t number = 0;
  {
    const concurrency::MutexLock lock(order_);
    check_assignable(assigned);
    for (auto& [name, state] : assigned)
      if (parameter(name).is_trainable() && state.slots.empty())
        state.slots = initial_slots(state.value, *state_.rule);
    StoreState next = state_;
    if (step) next.begin_at(*step);
    tickets.reserve(assigned.size());
    number = commit(std::move(next), std::move(bytes));
    for (const NamedState& each : assigned) tickets.draw(parameter(each.name));
  }
  change_values([&] {
    for (NamedState& each : assigned)
      tickets.use(
          [&](Parameter& own, std::uint64_t ticket) { own.assign(ticket, std::move(each.state)); });
  });
  wait_committed(number, deadline);
}

void ParameterStore::set_ready(Time deadline) {
  std::string bytes = encode_update(ready_record());
  std::int64_t number = 0;
  {
    const concurrency::MutexLock lock(order_);
    check_created();
    StoreState next = state_;
    next.is_ready = true;
    number = state_.is_ready ? log_->appended() : commit(std::move(next), std::move(bytes));
  }
  wait_committed(number, deadline);
}

void ParameterStore::set_learning_rate(double rate, Time deadline) {
  check_argument(rate >= 0, "The learning rate is ", rate, " and must be at least 0.");
  std::string bytes = encode_update(learning_rate_record(rate));
  std::int64_t number = 0;
  {
    const concurrency::MutexLock lock(order_);
    check_created();
    StoreState next = state_;
    next.learning_rate = rate;
    number = commit(std::move(next), std::move(bytes));
  }
  wait_committed(number, deadline);
}

void ParameterStore::admit(int worker, std::int64_t incarnation, Time deadline) {
  std::string bytes = encode_update(admit_record(worker, incarnation));
  std::int64_t number = 0;
  {
    const concurrency::MutexLock lock(order_);
    StoreState next = state_;
    next.admit(worker, incarnation);
    const bool is_known = incarnation > 0 && incarnation <= state_.ledger.incarnation(worker) &&
                          next.finished == state_.finished;
    number = is_known ? log_->appended() : commit(std::move(next), std::move(bytes));
  }
  wait_committed(number, deadline);
}

void ParameterStore::finish(int worker, std::int64_t incarnation, Time deadline) {
  std::string bytes = encode_update(finish_record(worker, incarnation));
  std::int64_t number = 0;
  {
    const concurrency::MutexLock lock(order_);
    StoreState next = state_;
    next.finish(worker, incarnation);
    const bool is_known = next.finished == state_.finished;
    number = is_known ? log_->appended() : commit(std::move(next), std::move(bytes));
  }
  wait_committed(number, deadline);
}

bool ParameterStore::has_finished(int worker) const {
  const concurrency::MutexLock lock(order_);
  return state_.finished.contains(worker);
}

void ParameterStore::wait_committed(std::int64_t record, Time deadline) {
  log_->wait_committed(record, deadline);
  if (options_.feed) options_.feed->wait_replicated(record, deadline);
}

bool ParameterStore::has_same(std::span<const Creation> variables, const optim::UpdateRule& rule,
                              const io::StateTree& job) const {
  if (variables.size() != parameters_.size() || rule.config() != state_.rule->config() ||
      job != state_.job)
    return false;
  for (const Creation& each : variables) {
    const auto found = parameters_.find(each.name);
    if (found == parameters_.end()) return false;
    const Parameter& own = *found->second;
    if (own.sizes() != each.value.sizes() || own.dtype() != each.value.scalar_type() ||
        own.settings() != each.settings())
      return false;
  }
  return true;
}

/// Puts a record into the log. If it throws, nothing has changed.
std::int64_t ParameterStore::log_change(io::BytePieces record) {
  const std::uint64_t bytes = record.size();
  const io::BytePieces fed = options_.feed ? record : io::BytePieces();
  const std::int64_t number = log_->append(std::move(record));
  log_bytes_ += bytes;
  if (options_.feed) options_.feed->append(number, fed);
  return number;
}

/// Makes a change of the state: only with its record in the log. If it throws, nothing has changed.
std::int64_t ParameterStore::commit(StoreState next, io::BytePieces record) {
  const std::int64_t number = log_change(std::move(record));
  std::swap(state_, next);
  return number;
}

}  // namespace brigade::ps
