#include "brigade/ps/store/store_records.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/ps/store/rate_divisor.h"
#include "brigade/ps/store/store_keys.h"

namespace brigade::ps {

namespace {

UpdateRecord record_of_kind(std::string_view kind) {
  UpdateRecord record;
  record.header[keys::kKind] = kind;
  return record;
}

UpdateRecord record_of_push(std::string_view kind, const coordination::PushId& id,
                            std::span<const checkpoint::NamedTensor> gradients,
                            std::span<const RowGradient> rows) {
  UpdateRecord record = record_of_kind(kind);
  record.header[keys::kWorker] = id.worker;
  record.header[keys::kIncarnation] = id.incarnation;
  record.header[keys::kNumber] = id.number;
  for (const auto& [name, gradient] : gradients)
    record.tensors.push_back({name, gradient.contiguous()});
  if (rows.empty()) return record;
  record.header[keys::kRows] = rows.size();
  for (const auto& [name, indices, values] : rows) {
    record.tensors.push_back({name, indices.contiguous()});
    record.tensors.push_back({name, values.contiguous()});
  }
  return record;
}

int small_number_in(const io::StateTree& header, std::string_view key) {
  const std::int64_t number = header.as_int64(key);
  if (number < 0 || number > std::numeric_limits<int>::max())
    throw Error(ErrorCode::kDataLoss, "A record of a server's log has the ", key, " ", number, ".");
  return static_cast<int>(number);
}

coordination::PushId push_id_in(const io::StateTree& header) {
  return {.worker = small_number_in(header, keys::kWorker),
          .incarnation = header.as_int64(keys::kIncarnation),
          .number = header.as_int64(keys::kNumber)};
}

}  // namespace

UpdateRecord push_record(const coordination::PushId& id,
                         std::span<const checkpoint::NamedTensor> gradients,
                         std::span<const RowGradient> rows) {
  return record_of_push(rows.empty() ? keys::kPush : keys::kPushRows, id, gradients, rows);
}

UpdateRecord offer_record(const coordination::PushId& id, std::int64_t step, int index,
                          std::span<const checkpoint::NamedTensor> gradients,
                          std::span<const RowGradient> rows) {
  UpdateRecord record =
      record_of_push(rows.empty() ? keys::kOffer : keys::kOfferRows, id, gradients, rows);
  record.header[keys::kStep] = step;
  record.header[keys::kIndex] = index;
  return record;
}

RecordedGradients recorded_gradients(const UpdateRecord& record) {
  const std::size_t count = record.tensors.size();
  const std::uint64_t rows =
      record.header.has(keys::kRows) ? record.header.as_uint64(keys::kRows) : 0;
  if (rows > count / 2)
    throw Error(ErrorCode::kDataLoss, "A record of a server's log has ", count,
                " tensors, too few for the ", rows, " gradients of rows that it should have.");
  const std::size_t dense = count - 2 * rows;
  RecordedGradients gradients;
  gradients.dense.assign(record.tensors.begin(),
                         record.tensors.begin() + static_cast<std::ptrdiff_t>(dense));
  for (std::size_t i = dense; i < count; i += 2)
    gradients.rows.push_back({.name = record.tensors[i].name,
                              .indices = record.tensors[i].tensor,
                              .values = record.tensors[i + 1].tensor});
  return gradients;
}

UpdateRecord decision_record(const coordination::StepDecision& decision) {
  UpdateRecord record = record_of_kind(keys::kDecision);
  record.header[keys::kDecision] = decision.save();
  return record;
}

UpdateRecord learning_rate_record(double rate) {
  UpdateRecord record = record_of_kind(keys::kLearningRate);
  record.header[keys::kLearningRate] = rate;
  return record;
}

UpdateRecord admit_record(int worker, std::int64_t incarnation) {
  UpdateRecord record = record_of_kind(keys::kAdmit);
  record.header[keys::kWorker] = worker;
  record.header[keys::kIncarnation] = incarnation;
  return record;
}

UpdateRecord finish_record(int worker, std::int64_t incarnation) {
  UpdateRecord record = admit_record(worker, incarnation);
  record.header[keys::kKind] = keys::kFinish;
  return record;
}

UpdateRecord ready_record() {
  return record_of_kind(keys::kReady);
}

UpdateRecord assign_record(std::span<const NamedState> variables,
                           std::optional<std::int64_t> step) {
  UpdateRecord record = record_of_kind(keys::kAssign);
  if (step) record.header[keys::kStep] = *step;
  record.header[keys::kVariables] = io::StateTree::list();
  for (const auto& [name, state] : variables) {
    io::StateTree saved;
    saved[keys::kName] = name;
    saved[keys::kUpdates] = state.updates;
    saved[keys::kSlots] = state.slots.size();
    record.header[keys::kVariables].push_back(std::move(saved));
    record.tensors.push_back({name, state.value});
    for (const at::Tensor& slot : state.slots) record.tensors.push_back({name, slot});
  }
  return record;
}

std::vector<NamedState> assigned_states(const UpdateRecord& record) {
  std::vector<NamedState> states;
  auto next = record.tensors.begin();
  const auto take = [&] {
    if (next == record.tensors.end())
      throw Error(ErrorCode::kDataLoss, "A record of a server's log lacks a variable's tensors.");
    return (next++)->tensor;
  };
  for (const io::StateTree& saved : record.header.as_list(keys::kVariables)) {
    NamedState each{
        .name = saved.as_string(keys::kName),
        .state = {.value = take(), .slots = {}, .updates = saved.as_int64(keys::kUpdates)}};
    for (std::uint64_t slot = 0; slot < saved.as_uint64(keys::kSlots); ++slot)
      each.state.slots.push_back(take());
    states.push_back(std::move(each));
  }
  return states;
}

void LogReplay::apply(const UpdateRecord& record) {
  const io::StateTree& header = record.header;
  const std::string& kind = header.as_string(keys::kKind);
  if (kind == keys::kPush || kind == keys::kPushRows) return push(record);
  if (kind == keys::kOffer || kind == keys::kOfferRows) return offer(record);
  if (kind == keys::kDecision) return decide(record);
  if (kind == keys::kAssign) return assign(record);
  if (kind == keys::kVariables || kind == keys::kCreate) return create(record);
  if (kind == keys::kReady) {
    state_.is_ready = true;
  } else if (kind == keys::kLearningRate) {
    state_.learning_rate = header.as_double(keys::kLearningRate);
  } else if (kind == keys::kAdmit) {
    state_.admit(small_number_in(header, keys::kWorker), header.as_int64(keys::kIncarnation));
  } else if (kind == keys::kFinish) {
    state_.finish(small_number_in(header, keys::kWorker), header.as_int64(keys::kIncarnation));
  } else {
    throw Error(ErrorCode::kUnimplemented, "The server's log has a record of kind ",
                base::quoted(kind), ", which a newer Brigade wrote: use that version.");
  }
}

Parameter& LogReplay::parameter(const std::string& name) const {
  const auto found = parameters_.find(name);
  if (found != parameters_.end()) return *found->second;
  throw Error(ErrorCode::kDataLoss, "The server's log changes variable ", base::quoted(name),
              ", and its creation is missing.");
}

void LogReplay::create(const UpdateRecord& record) {
  std::optional<ServerModel> model = creation_.add(record);
  if (!model) return;
  state_.learning_rate = model->rule->defaults().learning_rate;
  state_.rule = std::move(model->rule);
  state_.job = std::move(model->job);
  parameters_ = std::move(model->parameters);
}

void LogReplay::assign(const UpdateRecord& record) {
  for (NamedState& each : assigned_states(record)) {
    Parameter& own = parameter(each.name);
    if (own.is_trainable() && each.state.slots.empty())
      each.state.slots = initial_slots(each.state.value, *state_.rule);
    own.assign(own.order().draw(), std::move(each.state));
  }
  if (record.header.has(keys::kStep)) state_.begin_at(record.header.as_int64(keys::kStep));
}

void LogReplay::push(UpdateRecord record) {
  state_.count_push(push_id_in(record.header));
  const std::int64_t divisor = take_rate_divisor(record);
  const auto [dense, rows] = recorded_gradients(record);
  for (const auto& [name, gradient] : dense)
    update(name, {.values = gradient}, state_.learning_rate, divisor);
  for (const auto& [name, indices, values] : rows)
    update(name, {.values = values, .indices = indices}, state_.learning_rate, divisor);
}

void LogReplay::offer(const UpdateRecord& record) {
  const coordination::PushId id = push_id_in(record.header);
  auto [dense, rows] = recorded_gradients(record);
  state_.keep_offer(
      id,
      {.step = record.header.as_int64(keys::kStep),
       .from = {.worker = id.worker, .index = small_number_in(record.header, keys::kIndex)},
       .gradients = std::make_shared<const std::vector<checkpoint::NamedTensor>>(std::move(dense)),
       .rows = std::make_shared<const std::vector<RowGradient>>(std::move(rows))});
}

void LogReplay::decide(const UpdateRecord& record) {
  const auto decision = coordination::StepDecision::restore(record.header.at(keys::kDecision));
  for (const auto& [name, gradients] : state_.offers.gradients_of(decision))
    update(name, sum_by_tree(gradients, parameter(name).dtype()),
           decision.learning_rate.value_or(state_.learning_rate));
  state_.finish_step(decision);
}

void LogReplay::update(const std::string& name, const VariableGradient& gradient,
                       double learning_rate, std::int64_t divisor) const {
  Parameter& own = parameter(name);
  const optim::Hyperparameters rates =
      divided(own.hyperparameters(*state_.rule, learning_rate), divisor);
  own.update(own.order().draw(), *state_.rule, sum_by_tree({&gradient, 1}, own.dtype()), rates);
}

}  // namespace brigade::ps
