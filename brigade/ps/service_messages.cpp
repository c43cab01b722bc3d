#include "brigade/ps/service_messages.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/io/state_json.h"

namespace brigade::ps {

/// Without what the tensors of a message say.
void list_fields(auto& fields, MaybeConst<Creation> auto& creation) {
  fields("is_trainable", creation.is_trainable);
  fields("learning_rate", creation.learning_rate);
  fields("weight_decay", creation.weight_decay);
}

void list_fields(auto& fields, MaybeConst<Push> auto& push) {
  fields("number", push.number);
  fields("token", push.token);
  fields.count("read_at", push.read_at);
  fields.flag("acknowledge_later", push.acknowledge_later);
}

void list_fields(auto& fields, MaybeConst<CreateRequest> auto& request) {
  fields("rule", request.rule);
  fields("job", request.job);
}

void list_fields(auto& fields, MaybeConst<AssignRequest> auto& request) {
  fields("step", request.step);
}

void list_fields(auto& fields, MaybeConst<ExchangeRequest> auto& request) {
  fields("pull", request.pull);
  fields("decision", request.decision);
  fields("push", request.push);
  fields.flag("await_disk", request.await_disk);
}

void list_fields(auto& fields, MaybeConst<ExchangeReply> auto& reply) {
  fields.enumerator("verdict", reply.verdict, coordination::PushVerdict::kFenced);
  fields("step", reply.step);
  fields.count("staleness", reply.staleness);
  fields.count("acknowledged", reply.acknowledged);
}

void list_fields(auto& fields, MaybeConst<StoredStates> auto& states) {
  fields("step", states.step);
  fields("decision", states.decision);
}

namespace {

using io::StateTree;

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

/// The number of tensors that a message says it has; 0 if it says none.
std::int64_t count_at(const StateTree& tree, std::string_view key) {
  std::optional<std::int64_t> count;
  FieldReader{tree}.count(key, count);
  return count.value_or(0);
}

/// Hands out the tensors of a message one after another.
class MessageTensors {
 public:
  explicit MessageTensors(std::vector<checkpoint::NamedTensor> tensors)
      : tensors_(std::move(tensors)) {}

  checkpoint::NamedTensor next() {
    if (next_ == tensors_.size()) refuse("a tensor is missing.");
    return std::move(tensors_[next_++]);
  }
  /// Those before the last, which are `pairs` pairs and `singles` more.
  std::vector<checkpoint::NamedTensor> next_before_last(std::int64_t pairs, std::int64_t singles) {
    const auto left = static_cast<std::int64_t>(tensors_.size() - next_);
    if (pairs > left / 2 || singles > left - 2 * pairs) refuse("a tensor is missing.");
    std::vector<checkpoint::NamedTensor> first;
    for (std::int64_t i = left - 2 * pairs - singles; i > 0; --i) first.push_back(next());
    return first;
  }
  void check_none_left() const {
    if (next_ != tensors_.size()) refuse("it has too many tensors.");
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
      refuse("a token is not hexadecimal.");
    bytes.push_back(static_cast<char>(value));
  }
  return bytes;
}

void refuse_message(std::string_view why) {
  refuse("A message of another process of the job is damaged: ", why);
}

StateTree to_state(const JoinRequest& request) {
  FieldWriter fields;
  list_fields(fields, request);
  fields("protocol", kServiceProtocol);
  return std::move(fields.tree);
}

JoinRequest join_request_of(const StateTree& state) {
  const std::int64_t protocol = reading([&] { return state.as_int64("protocol"); });
  check_state(protocol == kServiceProtocol, "The client speaks version ", protocol,
              " of the parameter servers' protocol, this server version ", kServiceProtocol,
              ": start all processes with the same build.");
  return message_of<JoinRequest>(state);
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
  FieldWriter fields;
  fields("names", names);
  return std::move(fields.tree);
}

std::vector<std::string> names_of(const StateTree& state) {
  return reading([&] {
    std::vector<std::string> names;
    FieldReader{state}("names", names);
    return names;
  });
}

UpdateRecord to_message(const CreateRequest& request) {
  UpdateRecord message{.header = to_state(request), .tensors = {}};
  StateTree variables = StateTree::list();
  for (const Creation& each : request.variables) {
    variables.push_back(to_state(each));
    message.tensors.push_back({each.name, each.value});
  }
  message.header["variables"] = std::move(variables);
  return message;
}

CreateRequest create_request_of(UpdateRecord message) {
  return reading([&] {
    auto request = part_of<CreateRequest>(message.header);
    MessageTensors tensors(std::move(message.tensors));
    for (const StateTree& tree : message.header.as_list("variables")) {
      auto variable = part_of<Creation>(tree);
      checkpoint::NamedTensor value = tensors.next();
      variable.name = std::move(value.name);
      variable.value = std::move(value.tensor);
      request.variables.push_back(std::move(variable));
    }
    tensors.check_none_left();
    return request;
  });
}

UpdateRecord to_message(const AssignRequest& request) {
  UpdateRecord message{.header = to_state(request), .tensors = {}};
  add_states(request.variables, message);
  return message;
}

AssignRequest assign_request_of(UpdateRecord message) {
  return reading([&] {
    auto request = part_of<AssignRequest>(message.header);
    request.variables = take_states(message);
    return request;
  });
}

UpdateRecord to_message(const ExchangeRequest& request) {
  UpdateRecord message{.header = to_state(request), .tensors = {}};
  if (request.push) {
    message.tensors = request.push->gradients;
    for (const auto& [name, indices, values] : request.push->rows) {
      message.tensors.push_back({name, indices});
      message.tensors.push_back({name, values});
    }
    if (!request.push->rows.empty())
      message.header["push"]["rows"] = static_cast<std::int64_t>(request.push->rows.size());
  }
  if (!request.pull_rows.empty())
    message.header["pull_rows"] = static_cast<std::int64_t>(request.pull_rows.size());
  for (const auto& [name, indices] : request.pull_rows) message.tensors.push_back({name, indices});
  return message;
}

ExchangeRequest exchange_request_of(UpdateRecord message) {
  return reading([&] {
    auto request = part_of<ExchangeRequest>(message.header);
    const std::int64_t queries = count_at(message.header, "pull_rows");
    MessageTensors tensors(std::move(message.tensors));
    if (request.push) {
      const std::int64_t rows = count_at(message.header.at("push"), "rows");
      request.push->gradients = tensors.next_before_last(rows, queries);
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
  UpdateRecord message{.header = to_state(reply), .tensors = {}};
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
    auto reply = part_of<ExchangeReply>(message.header);
    MessageTensors tensors(std::move(message.tensors));
    for (const StateTree& updates : message.header.as_list("updates"))
      reply.values.push_back({.value = tensors.next().tensor, .updates = updates.as_int64()});
    for (std::int64_t i = count_at(message.header, "rows"); i > 0; --i)
      reply.rows.push_back(tensors.next().tensor);
    tensors.check_none_left();
    return reply;
  });
}

UpdateRecord to_message(const StoredStates& states) {
  UpdateRecord message{.header = to_state(states), .tensors = {}};
  add_states(states.variables, message);
  return message;
}

StoredStates states_of(UpdateRecord message) {
  return reading([&] {
    auto states = part_of<StoredStates>(message.header);
    states.variables = take_states(message);
    return states;
  });
}

}  // namespace brigade::ps
