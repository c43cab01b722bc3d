#pragma once

#include <cstdint>

#include "brigade/io/state_tree.h"
#include "brigade/ps/coordinator/coordinator_service.h"
#include "brigade/ps/message_fields.h"
#include "brigade/ps/store/update_record.h"

/// The arguments and results of CoordinatorService's calls as data, as `service_messages.h` has
/// those of a parameter server. The functions that read throw kInvalidArgument for what those that
/// write cannot have written.
namespace brigade::ps {

/// Changes with the messages. A worker of another version cannot join.
inline constexpr std::int64_t kCoordinatorProtocol = 2;

/// The calls, as numbers of `rpc::MessageCall`.
enum class CoordinatorMethod { kJoin = 1, kRenew, kLeave, kTake, kFinish };

void list_fields(auto& fields, MaybeConst<WorkerJoin> auto& request) {
  fields("job", request.task.job);
  fields("task", request.task.index);
  fields("incarnation", request.incarnation);
  fields("coordinator", request.coordinator);
}

void list_fields(auto& fields, MaybeConst<WorkerGrant> auto& grant) {
  fields.token("token", grant.token);
  fields("coordinator", grant.coordinator);
  fields("incarnation", grant.incarnation);
  fields("lease_ms", grant.lease);
}

void list_fields(auto& fields, MaybeConst<WorkerStatus> auto& status) {
  fields("is_done", status.is_done);
  fields("is_wanted", status.is_wanted);
}

io::StateTree to_state(const WorkerJoin& request);
/// Also throws kFailedPrecondition for a worker of another version.
WorkerJoin worker_join_of(const io::StateTree& state);

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
