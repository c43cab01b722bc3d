#include "brigade/ps/service_messages.h"

#include <charconv>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/io/state_json.h"
#include "brigade/ps/server/job_config.h"

namespace brigade::ps {
namespace {

using io::StateTree;
using StepToken = coordination::StepDecider::Token;

[[noreturn]] void refuse_message(std::string_view why) {
  throw Error(ErrorCode::kInvalidArgument,
              "A message between a parameter server and its client is damaged: ", why);
}

void check_text_size(std::size_t size) {
  if (size > kLongestText)
    refuse_message(base::str_cat("its text has ", size, " bytes; ", kLongestText, " are allowed."));
}

/// Of the text that a message begins with; 0 if it is no message.
std::uint64_t text_length(std::string_view bytes) {
  std::uint64_t length = 0;
  if (bytes.size() >= sizeof length) std::memcpy(&length, bytes.data(), sizeof length);
  return length;
}

/// Calls `read`; whatever it cannot read is a damaged message.
template <class Read>
auto reading(const Read& read) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // c10's, too, for sizes that no tensor has
    refuse_message(error.what());
  }
}

int int_at(const StateTree& tree, std::string_view key) {
  const std::int64_t value = tree.as_int64(key);
  if (!std::in_range<int>(value)) refuse_message(base::str_cat(key, " is ", value, "."));
  return static_cast<int>(value);
}

/// The enumerator from the first, 0, to `last`.
template <class Enum>
Enum enum_at(const StateTree& tree, std::string_view key, Enum last) {
  const int value = int_at(tree, key);
  if (value < 0 || value > static_cast<int>(last))
    refuse_message(base::str_cat(key, " is ", value, "."));
  return static_cast<Enum>(value);
}

std::chrono::milliseconds milliseconds_at(const StateTree& tree, std::string_view key) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
  const std::chrono::milliseconds time(tree.as_int64(key));
  if (time.count() < 0 || time > kLongest)
    refuse_message(base::str_cat(key, " is ", time.count(), " ms."));
  return time;
}

std::optional<double> double_at(const StateTree& tree, std::string_view key) {
  return tree.has(key) ? std::optional(tree.as_double(key)) : std::nullopt;
}

/// Of steps or updates: not negative.
std::optional<std::int64_t> count_at(const StateTree& tree, std::string_view key) {
  if (!tree.has(key)) return std::nullopt;
  const std::int64_t count = tree.as_int64(key);
  if (count < 0) refuse_message(base::str_cat(key, " is ", count, "."));
  return count;
}

bool is_set(const StateTree& tree, std::string_view key) {
  return tree.has(key) && tree.as_bool(key);
}

StateTree described(const StepToken& token) {
  StateTree tree;
  tree["step"] = token.step;
  tree["index"] = token.index;
  return tree;
}

std::optional<StepToken> token_at(const StateTree& tree, std::string_view key) {
  if (!tree.has(key)) return std::nullopt;
  const StateTree& token = tree.at(key);
  return StepToken{.step = token.as_int64("step"), .index = int_at(token, "index")};
}

std::optional<coordination::StepDecision> decision_at(const StateTree& tree, std::string_view key) {
  if (!tree.has(key)) return std::nullopt;
  return coordination::StepDecision::restore(tree.at(key));
}

StateTree described(const std::vector<std::string>& texts) {
  StateTree tree = StateTree::list();
  for (const std::string& text : texts) tree.push_back(text);
  return tree;
}

std::vector<std::string> texts_at(const StateTree& tree, std::string_view key) {
  std::vector<std::string> texts;
  for (const StateTree& text : tree.as_list(key)) texts.push_back(text.as_string());
  return texts;
}

/// Hands out the tensors of a message one after another.
class MessageTensors {
 public:
  explicit MessageTensors(std::vector<checkpoint::NamedTensor> tensors)
      : tensors_(std::move(tensors)) {}

  checkpoint::NamedTensor next() {
    if (next_ == tensors_.size()) refuse_message("a tensor is missing.");
    return std::move(tensors_[next_++]);
  }
  /// Those before the last, which are `pairs` pairs and `singles` more.
  std::vector<checkpoint::NamedTensor> next_before_last(std::int64_t pairs, std::int64_t singles) {
    const auto left = static_cast<std::int64_t>(tensors_.size() - next_);
    if (pairs > left / 2 || singles > left - 2 * pairs) refuse_message("a tensor is missing.");
    std::vector<checkpoint::NamedTensor> first;
    for (std::int64_t i = left - 2 * pairs - singles; i > 0; --i) first.push_back(next());
    return first;
  }
  void check_none_left() const {
    if (next_ != tensors_.size()) refuse_message("it has too many tensors.");
  }

 private:
  std::vector<checkpoint::NamedTensor> tensors_;
  std::size_t next_ = 0;
};

/// Adds the variables: their tensors, each followed by its slots, and the rest as a list.
void add_states(const std::vector<NamedState>& variables, UpdateRecord& message) {
  StateTree list = StateTree::list();
  for (const NamedState& each : variables) {
    StateTree tree;
    tree["updates"] = each.state.updates;
    tree["slots"] = static_cast<std::int64_t>(each.state.slots.size());
    list.push_back(std::move(tree));
    message.tensors.push_back({each.name, each.state.value});
    for (const at::Tensor& slot : each.state.slots) message.tensors.push_back({"", slot});
  }
  message.header["variables"] = std::move(list);
}

std::vector<NamedState> take_states(const UpdateRecord& message) {
  std::vector<NamedState> variables;
  MessageTensors tensors(message.tensors);
  for (const StateTree& tree : message.header.as_list("variables")) {
    checkpoint::NamedTensor value = tensors.next();
    NamedState variable{
        .name = std::move(value.name),
        .state = {
            .value = std::move(value.tensor), .slots = {}, .updates = tree.as_int64("updates")}};
    for (std::int64_t i = tree.as_int64("slots"); i > 0; --i)
      variable.state.slots.push_back(tensors.next().tensor);
    variables.push_back(std::move(variable));
  }
  tensors.check_none_left();
  return variables;
}

RowGradient take_rows(MessageTensors& tensors) {
  checkpoint::NamedTensor indices = tensors.next();
  return {.name = std::move(indices.name),
          .indices = std::move(indices.tensor),
          .values = tensors.next().tensor};
}

StateTree described(const Creation& creation) {
  StateTree tree;
  tree["is_trainable"] = creation.is_trainable;
  if (creation.learning_rate) tree["learning_rate"] = *creation.learning_rate;
  if (creation.weight_decay) tree["weight_decay"] = *creation.weight_decay;
  return tree;
}

StateTree described(const Push& push) {
  StateTree tree;
  tree["number"] = push.number;
  if (push.token) tree["token"] = described(*push.token);
  if (push.read_at) tree["read_at"] = *push.read_at;
  if (push.acknowledge_later) tree["acknowledge_later"] = true;
  if (!push.rows.empty()) tree["rows"] = static_cast<std::int64_t>(push.rows.size());
  return tree;
}

}  // namespace

void with_error_kinds(const std::function<void()>& call) {
  try {
    call();
  } catch (const NotMemberError& error) {
    throw rpc::MessageError(error.code(), error.what(), std::string(kNotMemberKind));
  } catch (const ReplacedError& error) {
    throw rpc::MessageError(error.code(), error.what(), std::string(kReplacedKind));
  } catch (const PushRefusedError& error) {
    throw rpc::MessageError(error.code(), error.what(), std::string(kPushRefusedKind));
  }
}

void throw_typed(const rpc::MessageError& error) {
  if (error.kind() == kNotMemberKind) throw NotMemberError(error.what());
  if (error.kind() == kReplacedKind) throw ReplacedError(error.what());
  if (error.kind() == rpc::kBusyKind) throw ServerBusyError(error.what());
  if (error.kind() == kPushRefusedKind) throw PushRefusedError(error.code(), error.what());
  throw Error(error);
}

std::string encode_state(const StateTree& state) {
  io::StateJson text = io::to_json(state);
  check_argument(text.arrays.empty(), "The text of a message contains an array.");
  check_text_size(text.json.size());
  return std::move(text.json);
}

StateTree decode_state(std::string_view text) {
  check_text_size(text.size());
  return reading([&] { return io::from_json(text); });
}

io::BytePieces encode_message(const UpdateRecord& message, std::size_t text_bytes) {
  io::BytePieces bytes = encode_update_in_pieces(message, text_bytes);
  check_text_size(text_length(bytes.pieces().front().bytes));
  return bytes;
}

std::string encode_message_text(const UpdateRecord& message) {
  std::string text = encode_update_text(message);
  check_text_size(text_length(text));
  return text;
}

UpdateRecord decode_message(const io::SharedBytes& bytes) {
  check_text_size(text_length(bytes.bytes));
  return reading([&] { return decode_update(bytes); });
}

std::string token_of_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    const std::string_view pair = digits.substr(i, 2);
    unsigned value = 0;
    const auto [end, error] = std::from_chars(pair.data(), pair.data() + pair.size(), value, 16);
    if (pair.size() != 2 || error != std::errc() || end != pair.data() + pair.size())
      refuse_message("a token is not hexadecimal.");
    bytes.push_back(static_cast<char>(value));
  }
  return bytes;
}

StateTree to_state(const JoinRequest& request) {
  StateTree tree;
  tree["protocol"] = kServiceProtocol;
  tree["job"] = request.task.job;
  tree["task"] = request.task.index;
  tree["incarnation"] = request.incarnation;
  return tree;
}

JoinRequest join_request_of(const StateTree& state) {
  const std::int64_t protocol = reading([&] { return state.as_int64("protocol"); });
  check_state(protocol == kServiceProtocol, "The client speaks version ", protocol,
              " of the parameter servers' protocol, this server version ", kServiceProtocol,
              ": start all processes with the same build.");
  return reading([&] {
    return JoinRequest{.task = {state.as_string("job"), int_at(state, "task")},
                       .incarnation = state.as_int64("incarnation")};
  });
}

StateTree to_state(const Grant& grant) {
  StateTree tree;
  tree["token"] = base::to_hex(std::as_bytes(std::span(grant.token)));
  tree["incarnation"] = grant.incarnation;
  tree["lease_ms"] = static_cast<std::int64_t>(grant.lease.count());
  return tree;
}

Grant grant_of(const StateTree& state) {
  return reading([&] {
    return Grant{.token = token_of_hex(state.as_string("token")),
                 .incarnation = state.as_int64("incarnation"),
                 .lease = milliseconds_at(state, "lease_ms")};
  });
}

StateTree to_state(const ServerStatus& status) {
  StateTree tree;
  tree["is_created"] = status.is_created;
  tree["is_ready"] = status.is_ready;
  tree["step"] = status.step;
  tree["learning_rate"] = status.learning_rate;
  tree["job"] = to_state(status.job);
  return tree;
}

ServerStatus status_of(const StateTree& state) {
  return reading([&] {
    return ServerStatus{.is_created = state.as_bool("is_created"),
                        .is_ready = state.as_bool("is_ready"),
                        .step = state.as_int64("step"),
                        .learning_rate = state.as_double("learning_rate"),
                        .job = job_from_state(state.at("job"))};
  });
}

StateTree to_state(const BeginStepRequest& request) {
  StateTree tree;
  tree["finished"] = request.finished;
  if (request.contribution) tree["contribution"] = described(*request.contribution);
  tree["wait_ms"] = static_cast<std::int64_t>(request.wait.count());
  return tree;
}

BeginStepRequest begin_step_request_of(const StateTree& state) {
  return reading([&] {
    return BeginStepRequest{.finished = state.as_int64("finished"),
                            .contribution = token_at(state, "contribution"),
                            .wait = milliseconds_at(state, "wait_ms")};
  });
}

StateTree to_state(const BeginStepReply& reply) {
  StateTree tree;
  tree["may_begin"] = reply.may_begin;
  if (reply.token) tree["token"] = described(*reply.token);
  if (reply.decision) tree["decision"] = reply.decision->save();
  tree["waiting_for"] = described(reply.waiting_for);
  return tree;
}

BeginStepReply begin_step_reply_of(const StateTree& state) {
  return reading([&] {
    return BeginStepReply{.may_begin = state.as_bool("may_begin"),
                          .token = token_at(state, "token"),
                          .decision = decision_at(state, "decision"),
                          .waiting_for = texts_at(state, "waiting_for")};
  });
}

StateTree to_state(double learning_rate) {
  StateTree tree;
  tree["learning_rate"] = learning_rate;
  return tree;
}

double learning_rate_of(const StateTree& state) {
  return reading([&] { return state.as_double("learning_rate"); });
}

StateTree to_state(const std::vector<std::string>& names) {
  StateTree tree;
  tree["names"] = described(names);
  return tree;
}

std::vector<std::string> names_of(const StateTree& state) {
  return reading([&] { return texts_at(state, "names"); });
}

UpdateRecord to_message(const CreateRequest& request) {
  UpdateRecord message;
  message.header["rule"] = request.rule;
  message.header["job"] = to_state(request.job);
  StateTree variables = StateTree::list();
  for (const Creation& each : request.variables) {
    variables.push_back(described(each));
    message.tensors.push_back({each.name, each.value});
  }
  message.header["variables"] = std::move(variables);
  return message;
}

CreateRequest create_request_of(UpdateRecord message) {
  return reading([&] {
    CreateRequest request{.variables = {},
                          .rule = message.header.at("rule"),
                          .job = job_from_state(message.header.at("job"))};
    MessageTensors tensors(std::move(message.tensors));
    for (const StateTree& tree : message.header.as_list("variables")) {
      checkpoint::NamedTensor value = tensors.next();
      request.variables.push_back({.name = std::move(value.name),
                                   .value = std::move(value.tensor),
                                   .is_trainable = tree.as_bool("is_trainable"),
                                   .learning_rate = double_at(tree, "learning_rate"),
                                   .weight_decay = double_at(tree, "weight_decay")});
    }
    tensors.check_none_left();
    return request;
  });
}

UpdateRecord to_message(const AssignRequest& request) {
  UpdateRecord message;
  message.header["step"] = request.step;
  add_states(request.variables, message);
  return message;
}

AssignRequest assign_request_of(UpdateRecord message) {
  return reading([&] {
    return AssignRequest{.variables = take_states(message),
                         .step = message.header.as_int64("step")};
  });
}

UpdateRecord to_message(const ExchangeRequest& request) {
  UpdateRecord message;
  message.header["pull"] = described(request.pull);
  if (request.decision) message.header["decision"] = request.decision->save();
  if (request.push) {
    message.header["push"] = described(*request.push);
    message.tensors = request.push->gradients;
    for (const auto& [name, indices, values] : request.push->rows) {
      message.tensors.push_back({name, indices});
      message.tensors.push_back({name, values});
    }
  }
  if (!request.pull_rows.empty())
    message.header["pull_rows"] = static_cast<std::int64_t>(request.pull_rows.size());
  for (const auto& [name, indices] : request.pull_rows) message.tensors.push_back({name, indices});
  if (request.await_disk) message.header["await_disk"] = true;
  return message;
}

ExchangeRequest exchange_request_of(UpdateRecord message) {
  return reading([&] {
    ExchangeRequest request{.push = std::nullopt,
                            .decision = decision_at(message.header, "decision"),
                            .pull = texts_at(message.header, "pull"),
                            .await_disk = is_set(message.header, "await_disk")};
    const std::int64_t queries = count_at(message.header, "pull_rows").value_or(0);
    MessageTensors tensors(std::move(message.tensors));
    if (message.header.has("push")) {
      const StateTree& push = message.header.at("push");
      const std::int64_t rows = count_at(push, "rows").value_or(0);
      request.push = Push{.number = push.as_int64("number"),
                          .token = token_at(push, "token"),
                          .gradients = tensors.next_before_last(rows, queries),
                          .read_at = count_at(push, "read_at"),
                          .acknowledge_later = is_set(push, "acknowledge_later")};
      for (std::int64_t i = 0; i < rows; ++i) request.push->rows.push_back(take_rows(tensors));
    }
    for (std::int64_t i = 0; i < queries; ++i) {
      checkpoint::NamedTensor indices = tensors.next();
      request.pull_rows.push_back(
          {.name = std::move(indices.name), .indices = std::move(indices.tensor)});
    }
    tensors.check_none_left();
    return request;
  });
}

UpdateRecord to_message(const ExchangeReply& reply) {
  UpdateRecord message;
  if (reply.verdict) message.header["verdict"] = static_cast<int>(*reply.verdict);
  message.header["step"] = reply.step;
  if (reply.staleness) message.header["staleness"] = *reply.staleness;
  if (reply.acknowledged) message.header["acknowledged"] = *reply.acknowledged;
  message.header["updates"] = StateTree::list();
  for (const Parameter::Reading& each : reply.values) {
    message.header["updates"].push_back(each.updates);
    message.tensors.push_back({"", each.value});
  }
  for (const at::Tensor& rows : reply.rows) message.tensors.push_back({"", rows});
  if (!reply.rows.empty()) message.header["rows"] = static_cast<std::int64_t>(reply.rows.size());
  return message;
}

ExchangeReply exchange_reply_of(UpdateRecord message) {
  return reading([&] {
    ExchangeReply reply{
        .verdict = std::nullopt, .values = {}, .step = message.header.as_int64("step")};
    if (message.header.has("verdict"))
      reply.verdict = enum_at(message.header, "verdict", coordination::PushVerdict::kFenced);
    reply.staleness = count_at(message.header, "staleness");
    reply.acknowledged = count_at(message.header, "acknowledged");
    MessageTensors tensors(std::move(message.tensors));
    for (const StateTree& updates : message.header.as_list("updates"))
      reply.values.push_back({.value = tensors.next().tensor, .updates = updates.as_int64()});
    for (std::int64_t i = count_at(message.header, "rows").value_or(0); i > 0; --i)
      reply.rows.push_back(tensors.next().tensor);
    tensors.check_none_left();
    return reply;
  });
}

UpdateRecord to_message(const StoredStates& states) {
  UpdateRecord message;
  message.header["step"] = states.step;
  if (states.decision) message.header["decision"] = states.decision->save();
  add_states(states.variables, message);
  return message;
}

StoredStates states_of(UpdateRecord message) {
  return reading([&] {
    return StoredStates{.variables = take_states(message),
                        .step = message.header.as_int64("step"),
                        .decision = decision_at(message.header, "decision")};
  });
}

}  // namespace brigade::ps
