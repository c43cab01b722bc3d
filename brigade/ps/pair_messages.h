#pragma once

#include "brigade/io/state_tree.h"
#include "brigade/ps/paired_service.h"
#include "brigade/ps/store/update_record.h"

/// The arguments and results of PairedService's calls as data, as service_messages.h has those of
/// ParameterService. The functions that read throw kInvalidArgument for what those that write
/// cannot have written.
namespace brigade::ps {

io::StateTree to_state(const coordination::PairStatus& status);
io::StateTree to_state(const RoleReply& reply);
io::StateTree to_state(const Vote& vote);
coordination::PairStatus pair_status_of(const io::StateTree& state);
RoleReply role_reply_of(const io::StateTree& state);
Vote vote_of(const io::StateTree& state);

UpdateRecord to_message(const FollowRequest& request);
UpdateRecord to_message(const FollowReply& reply);
FollowRequest follow_request_of(UpdateRecord message);
/// Records share the memory of the message's tensors.
FollowReply follow_reply_of(UpdateRecord message);

}  // namespace brigade::ps
