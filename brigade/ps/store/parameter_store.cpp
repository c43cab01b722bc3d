#include "brigade/ps/store/parameter_store.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/checkpoint.h"
#include "brigade/device/dtypes.h"
#include "brigade/io/state_json.h"
#include "brigade/optim/rule_config.h"
#include "brigade/ps/parameter_service.h"
#include "brigade/ps/server/job_config.h"
#include "brigade/ps/store/rate_divisor.h"
#include "brigade/ps/store/record_parts.h"
#include "brigade/ps/store/store_records.h"
#include "brigade/ps/store/store_snapshot.h"
#include "brigade/ps/store/update_record.h"

namespace brigade::ps {

using coordination::PushVerdict;

namespace {

constexpr const char* kNotCreated =
    "The server has no variables yet: its chief creates them before workers pull or push.";

std::string shape_text(at::ScalarType dtype, at::IntArrayRef sizes) {
  const auto known = device::file_dtype_of(dtype);
  return base::str_cat(known ? known->name : "another dtype", " [", base::join(sizes.vec(), ", "),
                       "]");
}

void check_like(const Parameter& own, std::string_view what, std::string_view name,
                const at::Tensor& tensor) {
  check_recordable({.name = std::string(name), .tensor = tensor});
  check_argument(
      own.sizes() == tensor.sizes() && own.dtype() == tensor.scalar_type(),
      base::str_cat("The ", what, " of ", base::quoted(name), " is ",
                    shape_text(tensor.scalar_type(), tensor.sizes()), ", and the variable is ",
                    shape_text(own.dtype(), own.sizes()), "."));
}

std::uint64_t bytes_of_state(const NamedState& variable) {
  constexpr std::uint64_t kFields = 512;
  std::uint64_t bytes = variable.state.value.nbytes() + kFields + 6 * variable.name.size();
  for (const at::Tensor& slot : variable.state.slots)
    bytes += slot.nbytes() + kFields + 6 * variable.name.size();
  return bytes;
}

/// Copies that nobody else changes.
std::vector<checkpoint::NamedTensor> copies_of(std::span<const checkpoint::NamedTensor> tensors) {
  std::vector<checkpoint::NamedTensor> copies;
  for (const auto& [name, tensor] : tensors)
    copies.push_back({name, tensor.detach().clone(at::MemoryFormat::Contiguous)});
  return copies;
}

}  // namespace

/// Updates of variables that are in the log and remain to be made, in this order.
struct ParameterStore::Updates {
  struct Update {
    Parameter* parameter = nullptr;
    optim::Hyperparameters hyperparameters;
    std::vector<VariableGradient> gradients;  // to be added, in this order
  };
  optim::UpdateRulePtr rule;
  std::vector<Update> updates;
  ParameterTickets tickets;
};

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

bool ParameterStore::has_offer(std::int64_t step, const coordination::Contribution& from) const {
  const concurrency::MutexLock lock(order_);
  return state_.offers.has(step, from);
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
      throw Error(ErrorCode::kAlreadyExists,
                  base::str_cat("The server has ", parameters_.size(), " variables, the rule ",
                                io::to_json(state_.rule->config()).json, " and the job ",
                                io::to_json(state_.job).json,
                                ", and they differ from what is to be created: give it an empty "
                                "folder, or start the job with the model and optimizer it had."));
    number = log_->appended();
  }
  if (!is_new) return wait_committed(number, deadline);
  const CreationRecords records(variables, *rule, job, options_.log.max_record_bytes);
  ModelCreation creation;
  for (std::size_t i = 0; i < records.size(); ++i) {
    std::string bytes = encode_update(records.record(i));
    // Decoded: with tensors that nobody else changes, and as after a restart.
    std::optional<CreatedModel> model = creation.add(decode_update(bytes));
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
  check_argument(step >= 0, base::str_cat("The step is ", step, " and must be at least 0."));
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
  check_argument(rate >= 0,
                 base::str_cat("The learning rate is ", rate, " and must be at least 0."));
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

ParameterStore::Pulled ParameterStore::pull(std::span<const std::string> names,
                                            std::span<const RowQuery> rows) const {
  Pulled pulled;
  ParameterTickets tickets;
  {
    const concurrency::MutexLock lock(order_);
    draw_tickets(names, Reads::kValues, tickets, rows);
    pulled.step = state_.step;
  }
  for (std::size_t i = 0; i < names.size(); ++i)
    pulled.values.push_back(
        tickets.use([](const Parameter& own, std::uint64_t ticket) { return own.read(ticket); }));
  for (const RowQuery& query : rows)
    pulled.rows.push_back(tickets.use([&](const Parameter& own, std::uint64_t ticket) {
      return own.read_rows(ticket, query.indices);
    }));
  check_still_usable();
  return pulled;
}

StoredStates ParameterStore::states(std::span<const std::string> names) const {
  StoredStates states;
  ParameterTickets tickets;
  {
    const concurrency::MutexLock lock(order_);
    draw_tickets(names, Reads::kStates, tickets);
    states.step = state_.step;
    if (is_durable(decision_record_)) states.decision = state_.last_decision;
  }
  for (const std::string& name : names)
    states.variables.push_back(
        {.name = name, .state = tickets.use([](const Parameter& own, std::uint64_t ticket) {
           return own.state(ticket);
         })});
  check_still_usable();
  return states;
}

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
    std::optional<std::int64_t> read_at, std::span<const RowGradient> rows) {
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
    log_->write_pending();  // the disk works while the updates are made
  } catch (...) {
    run(updates);  // a snapshot has the state, which counts the push
    throw;
  }
  run(updates);
  return begun;
}

void ParameterStore::wait_committed(std::int64_t record, Time deadline) {
  log_->wait_committed(record, deadline);
  if (options_.feed) options_.feed->wait_replicated(record, deadline);
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
      base::str_cat("The gradients of step ", decision.step,
                    " are not ordered by worker and index, each once."));
  check_argument(decision.learning_rate.value_or(0) >= 0,
                 base::str_cat("The learning rate of step ", decision.step, " is ",
                               decision.learning_rate.value_or(0), " and must be at least 0."));
  std::string bytes = encode_update(decision_record(decision));
  Updates updates;
  std::int64_t number = 0;
  {
    const concurrency::MutexLock lock(order_);
    check_usable();
    check_created();
    check_state(decision.step <= state_.step,
                base::str_cat("Step ", decision.step, " was decided, and the server is at step ",
                              state_.step, ": the decisions between them come first."));
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

void ParameterStore::snapshot() {
  const concurrency::MutexLock one_at_a_time(snapshots_);
  {
    const concurrency::MutexLock lock(order_);
    check_created();
  }
  const StoreMoment saved = collect({});
  write_snapshot(saved.covered, saved.contents);
  const concurrency::MutexLock lock(order_);
  log_bytes_ -= saved.log_bytes;
}

/// Everything, all from one moment between two changes.
StoreMoment ParameterStore::collect(const std::function<void(std::int64_t)>& begin) {
  StoreState state;
  std::vector<SavedVariable> variables;
  ParameterTickets tickets;
  StoreMoment collected;
  {
    const concurrency::MutexLock lock(order_);
    check_usable();
    state = state_;
    collected.covered = log_->appended();
    collected.log_bytes = log_bytes_;
    for (const auto& [name, each] : parameters_)
      variables.push_back({.name = name, .settings = each->settings(), .state = {}});
    tickets.reserve(parameters_.size());
    if (begin) begin(collected.covered);
    for (const auto& [name, each] : parameters_) tickets.draw(*each);
  }
  for (SavedVariable& variable : variables)
    variable.state =
        tickets.use([](const Parameter& own, std::uint64_t ticket) { return own.state(ticket); });
  check_still_usable();
  collected.contents = snapshot_contents(state, variables);
  return collected;
}

void ParameterStore::write_snapshot(std::int64_t covered, const checkpoint::Contents& contents) {
  if (!saver_) {
    saver_ = std::make_unique<checkpoint::Saver>(
        files_, checkpoint::SaverOptions{.directory = options_.folder / "snapshots",
                                         .keep_last = 2,
                                         .writing = checkpoint::Writing::kForeground});
  }
  saver_->save(covered, contents);
  log_->remove_up_to(covered);
}

void ParameterStore::check_usable() const {
  check_state(!has_failed_,
              "An update of the server's variables failed in the middle: restart the server, which "
              "then applies it from its log.");
}

/// After values were read: a change before them may have failed before it reached its variables. It
/// says so before it gives up its tickets.
void ParameterStore::check_still_usable() const {
  const concurrency::MutexLock lock(order_);
  check_usable();
}

void ParameterStore::check_created() const {
  check_state(state_.rule != nullptr, kNotCreated);
}

Parameter& ParameterStore::parameter(std::string_view name) const {
  const auto found = parameters_.find(name);
  if (found != parameters_.end()) return *found->second;
  throw Error(ErrorCode::kNotFound,
              state_.rule == nullptr
                  ? std::string(kNotCreated)
                  : base::str_cat("The server has no variable ", base::quoted(name), "."));
}

void ParameterStore::check_gradients(std::span<const checkpoint::NamedTensor> gradients,
                                     std::span<const RowGradient> rows) const try {
  std::set<std::string_view> names;
  const auto trainable = [&](const std::string& name) -> const Parameter& {
    const Parameter& own = parameter(name);
    check_argument(names.insert(name).second,
                   base::str_cat("A push has two gradients of ", base::quoted(name), "."));
    check_argument(own.is_trainable(),
                   base::str_cat("A push has a gradient of ", base::quoted(name),
                                 ", which is not trainable."));
    return own;
  };
  for (const auto& [name, gradient] : gradients) {
    const Parameter& own = trainable(name);
    check_recordable({.name = name, .tensor = gradient});
    if (may_push(gradient.scalar_type(), own.dtype()) && own.sizes() == gradient.sizes()) continue;
    check_like(own, "gradient", name, gradient);
  }
  for (const RowGradient& each : rows) {
    const Parameter& own = trainable(each.name);
    check_rows(each, own.sizes(), own.dtype());
  }
} catch (const Error& error) {
  throw PushRefusedError(error.code(), error.what());
}

/// A push that the log cannot take is refused before it is counted, so that its number is free.
void ParameterStore::check_fits(std::size_t record_bytes) const {
  if (record_bytes <= options_.log.max_record_bytes) return;
  throw PushRefusedError(
      ErrorCode::kInvalidArgument,
      base::str_cat("The gradients of a push have ", record_bytes,
                    " bytes, and the log of this server takes records of ",
                    options_.log.max_record_bytes,
                    " (UpdateLogOptions::max_record_bytes): use more servers, or divide variables "
                    "(variable_partitioner)."));
}

void ParameterStore::check_assignable(std::span<const NamedState> variables) const {
  check_usable();
  check_created();
  check_state(!state_.is_ready,
              "The variables cannot be assigned any more: the chief has let the workers begin.");
  std::set<std::string_view> names;
  for (const auto& [name, state] : variables) {
    const Parameter& own = parameter(name);
    const std::size_t slots = own.is_trainable() ? state_.rule->slots().size() : 0;
    check_argument(names.insert(name).second,
                   base::str_cat("Variable ", base::quoted(name), " is assigned twice."));
    check_argument((state.slots.empty() || state.slots.size() == slots) && state.updates >= 0,
                   base::str_cat("Variable ", base::quoted(name), " is assigned with ",
                                 state.slots.size(), " slots after ", state.updates,
                                 " updates: it has ", slots, " slots, and updates count from 0."));
    check_like(own, "value", name, state.value);
    for (const at::Tensor& slot : state.slots) check_like(own, "slot", name, slot);
  }
}

void ParameterStore::check_offer(int worker, std::int64_t step, int index) const {
  const JobConfig config = job_from_state(state_.job);
  check_state(config.mode == UpdateMode::kSync,
              "A gradient is for a step of synchronous training, and the job's is not.");
  check_argument(step >= 0 && index >= 0, base::str_cat("Worker ", worker, " has gradient ", index,
                                                        " of step ", step, ": both count from 0."));
  const int quota = coordination::StepDecider(config.sync).quota();
  if (step <= state_.step + 1 && index < quota) return;
  throw Error(
      ErrorCode::kResourceExhausted,
      base::str_cat("Worker ", worker, " has gradient ", index, " of step ", step,
                    ": a server keeps ", quota, " of each worker (counted from 0) for step ",
                    state_.step, ", which is in progress, and for the next."));
}

/// A pull may have seen pushes that a crash then undid.
std::optional<std::int64_t> ParameterStore::staleness_of(
    std::optional<std::int64_t> read_at) const {
  if (!read_at) return std::nullopt;
  return std::max<std::int64_t>(0, state_.step - *read_at);
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

Parameter& ParameterStore::parameter_of(const RowQuery& query) const {
  Parameter& own = parameter(query.name);
  check_rows(query, own.sizes());
  return own;
}

void ParameterStore::draw_tickets(std::span<const std::string> names, Reads what,
                                  ParameterTickets& tickets, std::span<const RowQuery> rows) const {
  check_usable();
  std::vector<Parameter*> found;
  std::set<std::string_view> distinct;
  std::uint64_t bytes = 0;
  for (const std::string& name : names) {
    check_argument(distinct.insert(name).second,
                   base::str_cat("Variable ", base::quoted(name), " is read twice in one call."));
    found.push_back(&parameter(name));
    const bool has_slots = what == Reads::kStates && found.back()->is_trainable();
    bytes += found.back()->bytes() * (1 + (has_slots ? state_.rule->slots().size() : 0));
  }
  distinct.clear();
  for (const RowQuery& query : rows) {
    check_argument(distinct.insert(query.name).second,
                   base::str_cat("Rows of variable ", base::quoted(query.name),
                                 " are read twice in one call."));
    found.push_back(&parameter_of(query));
    bytes += found.back()->row_bytes() * static_cast<std::uint64_t>(query.indices.numel());
  }
  check_argument(bytes <= options_.max_read_bytes,
                 base::str_cat("These ", found.size(), " variables have ", bytes,
                               " bytes, and one call reads at most ", options_.max_read_bytes,
                               ": read them in several calls, or raise the server's limit."));
  tickets.reserve(found.size());
  for (Parameter* each : found) tickets.draw(*each);
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

/// Makes a change of values that is in the log.
template <class Function>
void ParameterStore::change_values(const Function& change) {
  try {
    change();
  } catch (...) {
    const concurrency::MutexLock lock(order_);
    has_failed_ = true;
    throw;
  }
}

void ParameterStore::run(Updates& updates) {
  change_values([&] {
    for (const Updates::Update& each : updates.updates) {
      // Before its ticket is due.
      const VariableGradient gradient = sum_in_order(each.gradients, each.parameter->dtype());
      updates.tickets.use([&](Parameter& own, std::uint64_t ticket) {
        own.update(ticket, *updates.rule, gradient, each.hyperparameters);
      });
    }
  });
}

}  // namespace brigade::ps
