#pragma once

#include "brigade/ps/message_fields.h"
#include "brigade/ps/paired_service.h"
#include "brigade/ps/store/update_record.h"

/// The arguments and results of PairedService's calls as data, as service_messages.h has those of
/// ParameterService. The functions that read throw kInvalidArgument for what those that write
/// cannot have written.
namespace brigade::ps {

void list_fields(auto& fields, MaybeConst<coordination::PairStatus> auto& status) {
  fields("life", status.life);
  fields.enumerator("role", status.role, coordination::PairRole::kActing);
  fields.count("epoch", status.epoch);
  fields("is_restored", status.is_restored);
  fields.count("candidacy", status.candidacy);
}

void list_fields(auto& fields, MaybeConst<RoleReply> auto& reply) {
  fields("status", reply.status);
  fields.token("follow_token", reply.follow_token);
}

void list_fields(auto& fields, MaybeConst<Vote> auto& vote) {
  fields.task("voter", vote.voter);
  fields.count("epoch", vote.epoch);
  fields("life", vote.life);
  fields.count("candidacy", vote.candidacy);
}

UpdateRecord to_message(const FollowRequest& request);
UpdateRecord to_message(const FollowReply& reply);
FollowRequest follow_request_of(UpdateRecord message);
/// Records share the memory of the message's tensors.
FollowReply follow_reply_of(UpdateRecord message);

}  // namespace brigade::ps
