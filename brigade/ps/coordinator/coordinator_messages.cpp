#include "brigade/ps/coordinator/coordinator_messages.h"

#include <utility>

#include "brigade/base/error.h"

namespace brigade::ps {

using io::StateTree;

void list_fields(auto& fields, MaybeConst<PerWorkerCreation> auto& creation) {
  fields("id", creation.id);
  fields("function", creation.function);
  fields("arguments", creation.arguments);
}

void list_fields(auto& fields, MaybeConst<FunctionError> auto& error) {
  fields.enumerator("code", error.code, ErrorCode::kInternal);
  fields("message", error.message);
}

void list_fields(auto& fields, MaybeConst<PhaseEnd> auto& end) {
  fields("outcome", end.outcome);
  fields("error", end.error);
}

void list_fields(auto& fields, MaybeConst<TakeRequest> auto& request) {
  fields("wait_ms", request.wait);
  fields("phase", request.phase);
}

/// Without tensors and lists, as the next two.
void list_fields(auto& fields, MaybeConst<FunctionWork> auto& work) {
  fields("coordinator", work.coordinator);
  fields("id", work.id);
  fields("function", work.function);
  fields("values", work.arguments.values);
}

void list_fields(auto& fields, MaybeConst<TakeReply> auto& reply) {
  fields("is_done", reply.is_done);
  fields("phase_end", reply.phase_end);
  fields("work", reply.work);
}

void list_fields(auto& fields, MaybeConst<FunctionReport> auto& report) {
  fields("coordinator", report.coordinator);
  fields("id", report.id);
  fields("error", report.error);
}

StateTree to_state(const WorkerJoin& request) {
  FieldWriter fields;
  list_fields(fields, request);
  fields("protocol", kCoordinatorProtocol);
  return std::move(fields.tree);
}

WorkerJoin worker_join_of(const StateTree& state) {
  const std::int64_t protocol = reading([&] { return state.as_int64("protocol"); });
  check_state(protocol == kCoordinatorProtocol, "The worker speaks version ", protocol,
              " of the coordinator's protocol, and the coordinator version ", kCoordinatorProtocol,
              ": start all processes with the same build.");
  return message_of<WorkerJoin>(state);
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
  return {.header = to_state(request), .tensors = {}};
}

TakeRequest take_request_of(const UpdateRecord& message) {
  return message_of<TakeRequest>(message.header);
}

UpdateRecord to_message(const TakeReply& reply) {
  UpdateRecord message{.header = to_state(reply), .tensors = {}};
  if (!reply.work) return message;
  StateTree per_worker = StateTree::list();
  for (const PerWorkerCreation& each : reply.work->per_worker) per_worker.push_back(to_state(each));
  message.header["work"]["per_worker"] = std::move(per_worker);
  message.tensors = reply.work->arguments.tensors;
  return message;
}

TakeReply take_reply_of(UpdateRecord message) {
  return reading([&] {
    auto reply = part_of<TakeReply>(message.header);
    if (!reply.work) return reply;
    reply.work->arguments.tensors = std::move(message.tensors);
    for (const StateTree& each : message.header.at("work").as_list("per_worker"))
      reply.work->per_worker.push_back(part_of<PerWorkerCreation>(each));
    return reply;
  });
}

UpdateRecord to_message(const FunctionReport& report) {
  UpdateRecord message{.header = to_state(report), .tensors = {}};
  if (report.error) return message;
  message.header["values"] = report.result.values;
  message.tensors = report.result.tensors;
  return message;
}

FunctionReport function_report_of(UpdateRecord message) {
  return reading([&] {
    auto report = part_of<FunctionReport>(message.header);
    if (report.error) return report;
    report.result = {.values = message.header.at("values"), .tensors = std::move(message.tensors)};
    return report;
  });
}

}  // namespace brigade::ps
