#include "brigade/ps/coordinator/coordinator_messages.h"

#include <span>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/ps/service_messages.h"

namespace brigade::ps {
namespace {

using io::StateTree;

int task_index_of(std::int64_t value) {
  check_argument(std::in_range<int>(value), "A worker's task has the index ", value, ".");
  return static_cast<int>(value);
}

std::chrono::milliseconds time_of(std::int64_t count) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
  check_argument(count >= 0 && count <= kLongest.count(),
                 "A message of a coordinator has a time of ", count, " ms.");
  return std::chrono::milliseconds(count);
}

ErrorCode error_code_of(std::int64_t number) {
  check_argument(number >= 0 && number <= static_cast<std::int64_t>(ErrorCode::kInternal),
                 "A function's error has the code ", number, ".");
  return static_cast<ErrorCode>(number);
}

StateTree described(const PerWorkerCreation& creation) {
  StateTree tree;
  tree["id"] = creation.id;
  tree["function"] = creation.function;
  tree["arguments"] = creation.arguments;
  return tree;
}

StateTree described(const FunctionError& error) {
  StateTree tree;
  tree["code"] = static_cast<std::int64_t>(error.code);
  tree["message"] = error.message;
  return tree;
}

FunctionError error_of(const StateTree& tree) {
  return {.code = error_code_of(tree.as_int64("code")), .message = tree.as_string("message")};
}

StateTree described(const PhaseEnd& end) {
  StateTree tree;
  tree["outcome"] = end.outcome;
  if (end.error) tree["error"] = described(*end.error);
  return tree;
}

PhaseEnd phase_end_of(const StateTree& tree) {
  PhaseEnd end{.outcome = tree.at("outcome")};
  if (tree.has("error")) end.error = error_of(tree.at("error"));
  return end;
}

PerWorkerCreation creation_of(const StateTree& tree) {
  return {.id = tree.as_int64("id"),
          .function = tree.as_string("function"),
          .arguments = tree.at("arguments")};
}

}  // namespace

StateTree to_state(const WorkerJoin& request) {
  StateTree tree;
  tree["protocol"] = kCoordinatorProtocol;
  tree["job"] = request.task.job;
  tree["task"] = request.task.index;
  tree["incarnation"] = request.incarnation;
  tree["coordinator"] = request.coordinator;
  return tree;
}

WorkerJoin worker_join_of(const StateTree& state) {
  const std::int64_t protocol = state.as_int64("protocol");
  check_state(protocol == kCoordinatorProtocol, "The worker speaks version ", protocol,
              " of the coordinator's protocol, and the coordinator version ", kCoordinatorProtocol,
              ": start all processes with the same build.");
  return {.task = {state.as_string("job"), task_index_of(state.as_int64("task"))},
          .incarnation = state.as_int64("incarnation"),
          .coordinator = state.as_string("coordinator")};
}

StateTree to_state(const WorkerGrant& grant) {
  StateTree tree;
  tree["token"] = base::to_hex(std::as_bytes(std::span(grant.token)));
  tree["coordinator"] = grant.coordinator;
  tree["incarnation"] = grant.incarnation;
  tree["lease_ms"] = static_cast<std::int64_t>(grant.lease.count());
  return tree;
}

WorkerGrant worker_grant_of(const StateTree& state) {
  return {.token = token_of_hex(state.as_string("token")),
          .coordinator = state.as_string("coordinator"),
          .incarnation = state.as_int64("incarnation"),
          .lease = time_of(state.as_int64("lease_ms"))};
}

StateTree to_state(const WorkerStatus& status) {
  StateTree tree;
  tree["is_done"] = status.is_done;
  tree["is_wanted"] = status.is_wanted;
  return tree;
}

WorkerStatus worker_status_of(const StateTree& state) {
  return {.is_done = state.as_bool("is_done"), .is_wanted = state.as_bool("is_wanted")};
}

StateTree running_state(std::int64_t running) {
  StateTree tree;
  tree["running"] = running;
  return tree;
}

std::int64_t running_of(const StateTree& state) {
  return state.as_int64("running");
}

UpdateRecord to_message(const TakeRequest& request) {
  UpdateRecord message;
  message.header["wait_ms"] = static_cast<std::int64_t>(request.wait.count());
  message.header["phase"] = request.phase;
  return message;
}

TakeRequest take_request_of(const UpdateRecord& message) {
  return {.wait = time_of(message.header.as_int64("wait_ms")),
          .phase = message.header.as_int64("phase")};
}

UpdateRecord to_message(const TakeReply& reply) {
  UpdateRecord message;
  message.header["is_done"] = reply.is_done;
  if (reply.phase_end) message.header["phase_end"] = described(*reply.phase_end);
  if (!reply.work) return message;
  StateTree work;
  work["coordinator"] = reply.work->coordinator;
  work["id"] = reply.work->id;
  work["function"] = reply.work->function;
  work["values"] = reply.work->arguments.values;
  work["per_worker"] = StateTree::list();
  for (const PerWorkerCreation& each : reply.work->per_worker)
    work["per_worker"].push_back(described(each));
  message.header["work"] = std::move(work);
  message.tensors = reply.work->arguments.tensors;
  return message;
}

TakeReply take_reply_of(UpdateRecord message) {
  TakeReply reply{.is_done = message.header.as_bool("is_done")};
  if (message.header.has("phase_end"))
    reply.phase_end = phase_end_of(message.header.at("phase_end"));
  if (!message.header.has("work")) return reply;
  const StateTree& tree = message.header.at("work");
  FunctionWork work{
      .coordinator = tree.as_string("coordinator"),
      .id = tree.as_int64("id"),
      .function = tree.as_string("function"),
      .arguments = {.values = tree.at("values"), .tensors = std::move(message.tensors)}};
  for (const StateTree& each : tree.as_list("per_worker"))
    work.per_worker.push_back(creation_of(each));
  reply.work = std::move(work);
  return reply;
}

UpdateRecord to_message(const FunctionReport& report) {
  UpdateRecord message;
  message.header["coordinator"] = report.coordinator;
  message.header["id"] = report.id;
  if (report.error) {
    message.header["error"] = described(*report.error);
    return message;
  }
  message.header["values"] = report.result.values;
  message.tensors = report.result.tensors;
  return message;
}

FunctionReport function_report_of(UpdateRecord message) {
  const StateTree& header = message.header;
  FunctionReport report{.coordinator = header.as_string("coordinator"),
                        .id = header.as_int64("id")};
  if (header.has("error")) {
    report.error = error_of(header.at("error"));
    return report;
  }
  report.result = {.values = header.at("values"), .tensors = std::move(message.tensors)};
  return report;
}

}  // namespace brigade::ps
