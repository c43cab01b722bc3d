#pragma once

#include <cstdint>

#include "brigade/io/state_tree.h"
#include "brigade/ps/coordinator/coordinator_service.h"
#include "brigade/ps/store/update_record.h"

/// The arguments and results of CoordinatorService's calls as data, as `service_messages.h` has
/// those of a parameter server. The functions that read throw kInvalidArgument for what those that
/// write cannot have written.
namespace brigade::ps {

/// Changes with the messages. A worker of another version cannot join.
inline constexpr std::int64_t kCoordinatorProtocol = 2;

/// The calls, as numbers of `rpc::MessageCall`.
enum class CoordinatorMethod { kJoin = 1, kRenew, kLeave, kTake, kFinish };

io::StateTree to_state(const WorkerJoin& request);
io::StateTree to_state(const WorkerGrant& grant);
io::StateTree to_state(const WorkerStatus& status);

/// Also throws kFailedPrecondition for a worker of another version.
WorkerJoin worker_join_of(const io::StateTree& state);
WorkerGrant worker_grant_of(const io::StateTree& state);
WorkerStatus worker_status_of(const io::StateTree& state);

/// Of `renew`: the function that the worker runs.
io::StateTree running_state(std::int64_t running);
std::int64_t running_of(const io::StateTree& state);

UpdateRecord to_message(const TakeRequest& request);
UpdateRecord to_message(const TakeReply& reply);
UpdateRecord to_message(const FunctionReport& report);

TakeRequest take_request_of(const UpdateRecord& message);
TakeReply take_reply_of(UpdateRecord message);
FunctionReport function_report_of(UpdateRecord message);

}  // namespace brigade::ps
