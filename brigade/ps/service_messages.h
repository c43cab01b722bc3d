#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/io/byte_pieces.h"
#include "brigade/io/state_tree.h"
#include "brigade/ps/message_fields.h"
#include "brigade/ps/parameter_service.h"
#include "brigade/ps/store/update_record.h"
#include "brigade/rpc/message_service.h"

/// The arguments and results of ParameterService's calls as data: what a client and a
/// listener send to each other. Everything that comes from the network is checked here: the
/// functions that read throw kInvalidArgument, saying what is wrong, for what those that write
/// cannot have written.
namespace brigade::ps {

/// Changes with the messages. A client of another version cannot join.
inline constexpr std::int64_t kServiceProtocol = 3;

/// The kinds of `rpc::MessageError` that NotMemberError, ReplacedError and PushRefusedError are.
inline constexpr std::string_view kNotMemberKind = "not-member";
inline constexpr std::string_view kReplacedKind = "replaced";
inline constexpr std::string_view kPushRefusedKind = "push-refused";
/// Calls `call`; its errors of these types become MessageErrors.
void with_error_kinds(const std::function<void()>& call);
/// Throws the error that the server threw.
[[noreturn]] void throw_typed(const rpc::MessageError& error);

/// The longest text of a message, without its tensors. A parsed text takes more memory than its
/// bytes, so it has a lower limit than a message.
inline constexpr std::size_t kLongestText = std::size_t{4} << 20;

/// The text of a small message, and back.
std::string encode_state(const io::StateTree& state);
io::StateTree decode_state(std::string_view text);

/// The bytes of a message with tensors, whose memory they share: `encode_update_in_pieces`'s.
/// Throws kInvalidArgument if the text is too long.
io::BytePieces encode_message(const UpdateRecord& message, std::size_t text_bytes = 0);
/// What these bytes begin with, before those of the tensors, whose elements are not read. Throws as
/// `encode_message`.
std::string encode_message_text(const UpdateRecord& message);
/// The tensors share the memory of `bytes`, as with `decode_update`.
UpdateRecord decode_message(const io::SharedBytes& bytes);

/// The arguments of `assign`.
struct AssignRequest {
  std::vector<NamedState> variables;
  std::int64_t step = 0;
};

void list_fields(auto& fields, MaybeConst<JoinRequest> auto& request) {
  fields("job", request.task.job);
  fields("task", request.task.index);
  fields("incarnation", request.incarnation);
}

/// Also throws kFailedPrecondition for a client of another version.
JoinRequest join_request_of(const io::StateTree& state);
io::StateTree to_state(const JoinRequest& request);
io::StateTree to_state(double learning_rate);
io::StateTree to_state(const std::vector<std::string>& names);
double learning_rate_of(const io::StateTree& state);
std::vector<std::string> names_of(const io::StateTree& state);

void list_fields(auto& fields, MaybeConst<Grant> auto& grant) {
  fields.token("token", grant.token);
  fields("incarnation", grant.incarnation);
  fields("lease_ms", grant.lease);
}

void list_fields(auto& fields, MaybeConst<ServerStatus> auto& status) {
  fields("is_created", status.is_created);
  fields("is_ready", status.is_ready);
  fields("step", status.step);
  fields("learning_rate", status.learning_rate);
  fields("job", status.job);
}

void list_fields(auto& fields, MaybeConst<coordination::StepDecider::Token> auto& token) {
  fields("step", token.step);
  fields("index", token.index);
}

void list_fields(auto& fields, MaybeConst<BeginStepRequest> auto& request) {
  fields("finished", request.finished);
  fields("contribution", request.contribution);
  fields("wait_ms", request.wait);
}

void list_fields(auto& fields, MaybeConst<BeginStepReply> auto& reply) {
  fields("may_begin", reply.may_begin);
  fields("token", reply.token);
  fields("decision", reply.decision);
  fields("waiting_for", reply.waiting_for);
}

UpdateRecord to_message(const CreateRequest& request);
UpdateRecord to_message(const AssignRequest& request);
UpdateRecord to_message(const ExchangeRequest& request);
UpdateRecord to_message(const ExchangeReply& reply);
UpdateRecord to_message(const StoredStates& states);

CreateRequest create_request_of(UpdateRecord message);
AssignRequest assign_request_of(UpdateRecord message);
ExchangeRequest exchange_request_of(UpdateRecord message);
ExchangeReply exchange_reply_of(UpdateRecord message);
StoredStates states_of(UpdateRecord message);

}  // namespace brigade::ps
