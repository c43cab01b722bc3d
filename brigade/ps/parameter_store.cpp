#include "brigade/ps/parameter_store.h"

#include <algorithm>
#include <set>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/checkpoint.h"
#include "brigade/device/dtypes.h"
#include "brigade/optim/rule_config.h"

namespace brigade::ps {

namespace {

constexpr std::string_view kKind = "kind";
constexpr std::string_view kCreate = "create";
constexpr std::string_view kPush = "push";
constexpr std::string_view kRate = "learning_rate";
constexpr std::string_view kAdmit = "admit";
constexpr std::string_view kRule = "rule";
constexpr std::string_view kLedger = "ledger";
constexpr std::string_view kVariables = "variables";
constexpr std::string_view kUpdates = "updates";
constexpr std::string_view kIsTrainable = "trainable";
constexpr std::string_view kWorker = "worker";
constexpr std::string_view kIncarnation = "incarnation";
constexpr std::string_view kNumber = "number";

constexpr const char* kNotCreated =
    "The server has no variables yet: its chief creates them before workers pull or push.";

io::StateTree header_of(const coordination::PushId& id) {
  io::StateTree header;
  header[kKind] = kPush;
  header[kWorker] = id.worker;
  header[kIncarnation] = id.incarnation;
  header[kNumber] = id.number;
  return header;
}

coordination::PushId push_id_of(const io::StateTree& header) {
  return {.worker = static_cast<int>(header.as_int64(kWorker)),
          .incarnation = header.as_int64(kIncarnation),
          .number = header.as_int64(kNumber)};
}

std::string describe(at::ScalarType dtype, at::IntArrayRef sizes) {
  const auto known = device::file_dtype_of(dtype);
  return base::str_cat(known ? known->name : "another dtype", " [", base::join(sizes.vec(), ", "),
                       "]");
}

std::string slot_name(std::string_view variable, std::string_view slot) {
  return base::str_cat("slot/", slot, "/", variable);
}
std::string value_name(std::string_view variable) {
  return base::str_cat("value/", variable);
}

}  // namespace

/// Tickets of parameters, used one after another. Those that are left are given up in the
/// destructor: later tickets would wait for them forever.
class ParameterStore::Tickets {
 public:
  Tickets() = default;
  Tickets(const Tickets&) = delete;
  Tickets& operator=(const Tickets&) = delete;
  ~Tickets() {
    while (next_ < drawn_.size()) {
      const auto& [parameter, ticket] = drawn_[next_++];
      const concurrency::TicketMutex::Hold hold(parameter->order(), ticket);
    }
  }

  void reserve(std::size_t count) { drawn_.reserve(count); }
  void draw(Parameter& parameter) { drawn_.emplace_back(&parameter, parameter.order().draw()); }
  std::size_t size() const { return drawn_.size(); }
  /// Calls `function(parameter, ticket)`, which must hold the ticket, with the next one.
  template <class Function>
  auto use(const Function& function) {
    const auto& [parameter, ticket] = drawn_[next_++];
    return function(*parameter, ticket);
  }

 private:
  std::vector<std::pair<Parameter*, std::uint64_t>> drawn_;
  std::size_t next_ = 0;
};

/// What `create` makes, ready to be used.
struct ParameterStore::Created {
  explicit Created(const UpdateRecord& record)
      : rule(optim::rule_from_config(record.header.at(kRule))) {
    for (std::size_t i = 0; i < record.tensors.size(); ++i) {
      const auto& [name, value] = record.tensors[i];
      parameters.emplace(
          name, std::make_unique<Parameter>(Parameter::State{.value = value, .slots = {}},
                                            record.header.as_bool(kIsTrainable, i), *rule));
    }
  }
  optim::UpdateRulePtr rule;
  Parameters parameters;
};

void ParameterStore::install(Created created) noexcept {
  learning_rate_ = created.rule->defaults().learning_rate;
  rule_ = std::move(created.rule);
  parameters_ = std::move(created.parameters);
}

ParameterStore::ParameterStore(std::shared_ptr<io::FileSystem> files, ParameterStoreOptions options)
    : files_(std::move(files)), options_(std::move(options)) {
  const std::int64_t covered = load_snapshot();
  log_ = std::make_unique<coordination::UpdateLog>(
      *files_, options_.folder / "log", covered,
      [this](std::int64_t, std::string_view record) { replay(record); }, options_.log);
}

ParameterStore::~ParameterStore() = default;

bool ParameterStore::is_created() const {
  const concurrency::MutexLock lock(order_);
  return rule_ != nullptr;
}

void ParameterStore::create(std::span<const Creation> variables, const optim::UpdateRulePtr& rule,
                            Time deadline) {
  UpdateRecord record;
  record.header[kKind] = kCreate;
  record.header[kRule] = rule->config();
  record.header[kIsTrainable] = io::StateTree::list();
  std::set<std::string_view> names;
  for (const Creation& each : variables) {
    check_argument(names.insert(each.name).second,
                   base::str_cat("Variable ", base::quoted(each.name), " is created twice."));
    check_argument(!each.is_trainable || each.value.is_floating_point(),
                   base::str_cat("Variable ", base::quoted(each.name), " is trainable and ",
                                 describe(each.value.scalar_type(), each.value.sizes()),
                                 ": trainable variables are of floating point."));
    record.header[kIsTrainable].push_back(each.is_trainable);
    record.tensors.push_back({each.name, each.value});
  }
  std::string bytes = encode_update(record);
  std::int64_t number = 0;
  {
    const concurrency::MutexLock lock(order_);
    if (rule_ == nullptr) {
      Created created(decode_update(bytes));  // with tensors that nobody else changes
      number = log_->append(std::move(bytes));
      install(std::move(created));
    } else if (has_same(variables, *rule)) {
      number = log_->appended();
    } else {
      throw Error(ErrorCode::kAlreadyExists,
                  base::str_cat("The server has ", parameters_.size(), " variables and the rule ",
                                io::to_json(rule_->config()).json,
                                ", and they differ from what is to be created: give it an empty "
                                "folder, or start the job with the model and optimizer it had."));
    }
  }
  log_->wait_committed(number, deadline);
}

void ParameterStore::set_learning_rate(double rate, Time deadline) {
  check_argument(rate >= 0,
                 base::str_cat("The learning rate is ", rate, " and must be at least 0."));
  UpdateRecord record;
  record.header[kKind] = kRate;
  record.header[kRate] = rate;
  std::string bytes = encode_update(record);
  std::int64_t number = 0;
  {
    const concurrency::MutexLock lock(order_);
    check_state(rule_ != nullptr, kNotCreated);
    number = log_->append(std::move(bytes));
    learning_rate_ = rate;
  }
  log_->wait_committed(number, deadline);
}

double ParameterStore::learning_rate() const {
  const concurrency::MutexLock lock(order_);
  return learning_rate_;
}

void ParameterStore::admit(int worker, std::int64_t incarnation, Time deadline) {
  UpdateRecord record;
  record.header[kKind] = kAdmit;
  record.header[kWorker] = worker;
  record.header[kIncarnation] = incarnation;
  std::string bytes = encode_update(record);
  std::int64_t number = 0;
  {
    const concurrency::MutexLock lock(order_);
    coordination::PushLedger next = ledger_;  // so that nothing is logged that cannot be done
    next.admit(worker, incarnation);
    number = log_->append(std::move(bytes));
    std::swap(ledger_, next);
  }
  log_->wait_committed(number, deadline);
}

std::vector<Parameter::Reading> ParameterStore::pull(std::span<const std::string> names) const {
  Tickets tickets;
  {
    const concurrency::MutexLock lock(order_);
    check_usable();
    tickets.reserve(names.size());
    for (const std::string& name : names) tickets.draw(parameter(name));
  }
  std::vector<Parameter::Reading> readings;
  for (std::size_t i = 0; i < names.size(); ++i)
    readings.push_back(
        tickets.use([](const Parameter& each, std::uint64_t ticket) { return each.read(ticket); }));
  return readings;
}

coordination::PushVerdict ParameterStore::push(const coordination::PushId& id,
                                               std::span<const checkpoint::NamedTensor> gradients,
                                               Time deadline) {
  using coordination::PushVerdict;
  UpdateRecord record{.header = header_of(id), .tensors = {}};
  for (const checkpoint::NamedTensor& each : gradients)
    record.tensors.push_back({each.name, each.tensor.contiguous()});
  std::string bytes = encode_update(record);  // outside of the lock: it may be long
  Tickets tickets;
  optim::UpdateRulePtr rule;
  optim::Hyperparameters rates;
  std::int64_t number = 0;
  PushVerdict verdict = PushVerdict::kApply;
  {
    const concurrency::MutexLock lock(order_);
    check_usable();
    check_state(rule_ != nullptr, kNotCreated);
    check_gradients(record.tensors);
    verdict = ledger_.judge(id);
    if (verdict == PushVerdict::kGap || verdict == PushVerdict::kFenced) return verdict;
    if (verdict == PushVerdict::kApply) {
      tickets.reserve(record.tensors.size());  // nothing below throws once the log has the push
      rule = rule_;
      rates = hyperparameters();
      coordination::PushLedger next = ledger_;
      next.record(id);
      number = log_->append(std::move(bytes));
      std::swap(ledger_, next);
      for (const checkpoint::NamedTensor& each : record.tensors) tickets.draw(parameter(each.name));
    } else {
      number = log_->appended();  // its record is among these, perhaps not yet on the disk
    }
  }
  try {
    for (std::size_t i = 0; i < tickets.size(); ++i)
      tickets.use([&](Parameter& each, std::uint64_t ticket) {
        each.update(ticket, *rule, record.tensors[i].tensor, rates);
      });
  } catch (...) {
    const concurrency::MutexLock lock(order_);
    has_failed_ = true;
    throw;
  }
  log_->wait_committed(number, deadline);
  return verdict;
}

void ParameterStore::snapshot() {
  const concurrency::MutexLock one_at_a_time(snapshots_);
  checkpoint::Contents contents;
  std::int64_t covered = 0;
  Tickets tickets;
  std::vector<std::string> names;
  optim::UpdateRulePtr rule;
  {
    const concurrency::MutexLock lock(order_);
    check_usable();
    check_state(rule_ != nullptr, kNotCreated);
    rule = rule_;
    covered = log_->appended();
    contents.state[kRule] = rule_->config();
    contents.state[kRate] = learning_rate_;
    contents.state[kLedger] = ledger_.save();
    for (const auto& [name, each] : parameters_) names.push_back(name);
    tickets.reserve(names.size());
    for (const auto& [name, each] : parameters_) tickets.draw(*each);
  }
  contents.state[kVariables] = io::StateTree::dict();
  for (const std::string& name : names) {
    io::StateTree& saved = contents.state[kVariables][name];
    const Parameter::State state = tickets.use([&](const Parameter& each, std::uint64_t ticket) {
      Parameter::State copy = each.state(ticket);
      saved[kIsTrainable] = each.is_trainable();
      return copy;
    });
    saved[kUpdates] = state.updates;
    contents.tensors.push_back({value_name(name), state.value});
    for (std::size_t slot = 0; slot < state.slots.size(); ++slot)
      contents.tensors.push_back({slot_name(name, rule->slots()[slot].name), state.slots[slot]});
  }
  if (!saver_) {
    saver_ = std::make_unique<checkpoint::Saver>(
        files_, checkpoint::SaverOptions{.directory = options_.folder / "snapshots",
                                         .keep_last = 2,
                                         .writing = checkpoint::Writing::kForeground});
  }
  saver_->save(covered, contents);
  log_->remove_up_to(covered);
}

std::vector<std::string> ParameterStore::names() const {
  const concurrency::MutexLock lock(order_);
  std::vector<std::string> names;
  for (const auto& [name, each] : parameters_) names.push_back(name);
  return names;
}

void ParameterStore::check_usable() const {
  check_state(!has_failed_,
              "An update of the server's variables failed in the middle: restart the server, which "
              "then applies it from its log.");
}

Parameter& ParameterStore::parameter(std::string_view name) const {
  const auto found = parameters_.find(name);
  if (found != parameters_.end()) return *found->second;
  throw Error(ErrorCode::kNotFound,
              parameters_.empty()
                  ? std::string(kNotCreated)
                  : base::str_cat("The server has no variable ", base::quoted(name), "."));
}

void ParameterStore::check_gradients(std::span<const checkpoint::NamedTensor> gradients) const {
  std::set<std::string_view> names;
  for (const auto& [name, gradient] : gradients) {
    const Parameter& own = parameter(name);
    check_argument(names.insert(name).second,
                   base::str_cat("A push has two gradients of ", base::quoted(name), "."));
    check_argument(own.is_trainable(),
                   base::str_cat("A push has a gradient of ", base::quoted(name),
                                 ", which is not trainable."));
    check_argument(
        own.sizes() == gradient.sizes() && own.dtype() == gradient.scalar_type(),
        base::str_cat("A push has a gradient of ", base::quoted(name), " that is ",
                      describe(gradient.scalar_type(), gradient.sizes()), ", and the variable is ",
                      describe(own.dtype(), own.sizes()), "."));
  }
}

bool ParameterStore::has_same(std::span<const Creation> variables,
                              const optim::UpdateRule& rule) const {
  if (variables.size() != parameters_.size() || rule.config() != rule_->config()) return false;
  return std::ranges::all_of(variables, [&](const Creation& each) {
    const auto found = parameters_.find(each.name);
    return found != parameters_.end() && found->second->sizes() == each.value.sizes() &&
           found->second->dtype() == each.value.scalar_type() &&
           found->second->is_trainable() == each.is_trainable;
  });
}

optim::Hyperparameters ParameterStore::hyperparameters() const {
  optim::Hyperparameters rates = rule_->defaults();
  rates.learning_rate = learning_rate_;
  return rates;
}

std::int64_t ParameterStore::load_snapshot() {
  const auto latest =
      checkpoint::find_latest_complete(files_, options_.folder / "snapshots").checkpoint;
  if (!latest) return 0;
  const concurrency::MutexLock lock(order_);
  const io::StateTree state = latest->state();
  rule_ = optim::rule_from_config(state.at(kRule));
  learning_rate_ = state.as_double(kRate);
  ledger_.restore(state.at(kLedger));
  std::map<std::string, at::Tensor> tensors;
  for (auto& [name, tensor] : latest->tensors(checkpoint::Section::kTensors))
    tensors.emplace(name, tensor);
  for (const auto& [name, saved] : state.at(kVariables).as_dict()) {
    const bool is_trainable = saved.as_bool(kIsTrainable);
    Parameter::State own{
        .value = tensors.at(value_name(name)), .slots = {}, .updates = saved.as_int64(kUpdates)};
    if (is_trainable)
      for (const optim::SlotSpec& slot : rule_->slots())
        own.slots.push_back(tensors.at(slot_name(name, slot.name)));
    parameters_.emplace(name, std::make_unique<Parameter>(std::move(own), is_trainable, *rule_));
  }
  return latest->step();
}

/// Applies a change again that an earlier run put into the log.
void ParameterStore::replay(std::string_view bytes) {
  const UpdateRecord record = decode_update(bytes);
  const concurrency::MutexLock lock(order_);
  const std::string& kind = record.header.as_string(kKind);
  if (kind == kCreate) return install(Created(record));
  if (kind == kRate) {
    learning_rate_ = record.header.as_double(kRate);
  } else if (kind == kAdmit) {
    ledger_.admit(static_cast<int>(record.header.as_int64(kWorker)),
                  record.header.as_int64(kIncarnation));
  } else if (kind == kPush) {
    ledger_.record(push_id_of(record.header));
    for (const auto& [name, gradient] : record.tensors) {
      Parameter& own = parameter(name);
      own.update(own.order().draw(), *rule_, gradient, hyperparameters());
    }
  } else {
    throw Error(ErrorCode::kUnimplemented,
                base::str_cat("The server's log has a record of kind ", base::quoted(kind),
                              ", which a newer Brigade wrote: use that version."));
  }
}

}  // namespace brigade::ps
