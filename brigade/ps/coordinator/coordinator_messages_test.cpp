#include "brigade/ps/coordinator/coordinator_messages.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "brigade/base/error.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/ps/service_messages.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;

const std::string kBinaryToken("a token\0 of bytes\xff", 18);

/// As the other side gets it.
io::StateTree sent_state(const io::StateTree& state) {
  return decode_state(encode_state(state));
}
UpdateRecord sent_message(const UpdateRecord& message) {
  return decode_message(io::shared_bytes(encode_message(message).joined()));
}

FunctionData sample_data() {
  FunctionData data{.tensors = {{"x", at::arange(6, at::kDouble).view({2, 3})}}};
  data.values["rate"] = 0.5;
  data.values["names"].push_back("one");
  return data;
}

void expect_sample(const FunctionData& data) {
  EXPECT_EQ(data.values, sample_data().values);
  ASSERT_EQ(data.tensors.size(), 1u);
  EXPECT_TRUE(at::equal(data.tensor("x"), sample_data().tensor("x")));
}

TEST(CoordinatorMessages, MembershipsAndStatusArriveAsTheyWereSent) {
  const WorkerJoin join = worker_join_of(
      sent_state(to_state({.task = {"worker", 3}, .incarnation = 5, .coordinator = "c0ffee"})));
  EXPECT_EQ(join.task, (cluster::Task{"worker", 3}));
  EXPECT_EQ(join.incarnation, 5);
  EXPECT_EQ(join.coordinator, "c0ffee");

  const WorkerGrant grant = message_of<WorkerGrant>(
      sent_state(to_state(WorkerGrant{.token = kBinaryToken,
                                      .coordinator = "c0ffee",
                                      .incarnation = 5,
                                      .lease = std::chrono::milliseconds(800)})));
  EXPECT_EQ(grant.token, kBinaryToken);
  EXPECT_EQ(grant.coordinator, "c0ffee");
  EXPECT_EQ(grant.incarnation, 5);
  EXPECT_EQ(grant.lease, std::chrono::milliseconds(800));

  for (const bool flag : {false, true}) {
    const WorkerStatus status = message_of<WorkerStatus>(
        sent_state(to_state(WorkerStatus{.is_done = flag, .is_wanted = !flag})));
    EXPECT_EQ(status.is_done, flag);
    EXPECT_EQ(status.is_wanted, !flag);
  }
  EXPECT_EQ(running_of(sent_state(running_state(17))), 17);
}

TEST(CoordinatorMessages, FunctionsArriveAsTheyWereSent) {
  EXPECT_EQ(
      take_request_of(sent_message(to_message(TakeRequest{.wait = std::chrono::seconds(2)}))).wait,
      std::chrono::seconds(2));
  const TakeReply none = take_reply_of(sent_message(to_message(TakeReply{.is_done = true})));
  EXPECT_TRUE(none.is_done);
  EXPECT_FALSE(none.work);

  const FunctionWork work{.coordinator = "c0ffee",
                          .id = 9,
                          .function = "step",
                          .arguments = sample_data(),
                          .per_worker = {{.id = 2, .function = "batches", .arguments = {}},
                                         {.id = 4, .function = "others", .arguments = "all"}}};
  const TakeReply reply = take_reply_of(sent_message(to_message(TakeReply{.work = work})));
  EXPECT_FALSE(reply.is_done);
  ASSERT_TRUE(reply.work);
  EXPECT_EQ(reply.work->coordinator, "c0ffee");
  EXPECT_EQ(reply.work->id, 9);
  EXPECT_EQ(reply.work->function, "step");
  expect_sample(reply.work->arguments);
  ASSERT_EQ(reply.work->per_worker.size(), 2u);
  EXPECT_EQ(reply.work->per_worker[0].id, 2);
  EXPECT_TRUE(reply.work->per_worker[0].arguments.is_null());
  EXPECT_EQ(reply.work->per_worker[1].function, "others");
  EXPECT_EQ(reply.work->per_worker[1].arguments.as_string(), "all");
}

TEST(CoordinatorMessages, PhasesArriveAsTheyWereSent) {
  EXPECT_EQ(take_request_of(sent_message(to_message(TakeRequest{.phase = 7}))).phase, 7);
  EXPECT_FALSE(take_reply_of(sent_message(to_message(TakeReply{}))).phase_end);
  const TakeReply ended = take_reply_of(
      sent_message(to_message(TakeReply{.phase_end = PhaseEnd{.outcome = "the result"}})));
  ASSERT_TRUE(ended.phase_end);
  EXPECT_FALSE(ended.phase_end->error);
  EXPECT_EQ(ended.phase_end->outcome.as_string(), "the result");
  const TakeReply failed = take_reply_of(sent_message(to_message(
      TakeReply{.phase_end = PhaseEnd{.error = FunctionError{.code = ErrorCode::kOutOfRange,
                                                             .message = "too far"}}})));
  ASSERT_TRUE(failed.phase_end && failed.phase_end->error);
  EXPECT_EQ(failed.phase_end->error->code, ErrorCode::kOutOfRange);
  EXPECT_EQ(failed.phase_end->error->message, "too far");
}

TEST(CoordinatorMessages, ReportsArriveAsTheyWereSent) {
  const FunctionReport done = function_report_of(sent_message(
      to_message(FunctionReport{.coordinator = "c0ffee", .id = 9, .result = sample_data()})));
  EXPECT_EQ(done.coordinator, "c0ffee");
  EXPECT_EQ(done.id, 9);
  EXPECT_FALSE(done.error);
  expect_sample(done.result);

  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    const FunctionReport failed = function_report_of(sent_message(to_message(FunctionReport{
        .coordinator = "c0ffee",
        .id = 9,
        .error = FunctionError{.code = static_cast<ErrorCode>(code), .message = "why"}})));
    ASSERT_TRUE(failed.error);
    EXPECT_EQ(static_cast<int>(failed.error->code), code);
    EXPECT_EQ(failed.error->message, "why");
  }
}

TEST(CoordinatorMessages, WhatCannotHaveBeenWrittenIsRefused) {
  const auto refused = [](const std::function<void()>& read) {
    return code_of(read) == ErrorCode::kInvalidArgument;
  };
  const io::StateTree empty = io::StateTree::dict();
  EXPECT_TRUE(refused([&] { worker_join_of(empty); }));
  EXPECT_TRUE(refused([&] { message_of<WorkerGrant>(empty); }));
  EXPECT_TRUE(refused([&] { message_of<WorkerStatus>(empty); }));
  EXPECT_TRUE(refused([&] { running_of(empty); }));
  EXPECT_TRUE(refused([&] { take_request_of({.header = empty}); }));
  EXPECT_TRUE(refused([&] { take_reply_of({.header = empty}); }));
  EXPECT_TRUE(refused([&] { function_report_of({.header = empty}); }));

  io::StateTree join = to_state(WorkerJoin{});
  join["task"] = std::int64_t{1} << 40;
  EXPECT_TRUE(refused([&] { worker_join_of(join); }));
  UpdateRecord report =
      to_message(FunctionReport{.id = 1, .error = FunctionError{.message = "why"}});
  report.header["error"]["code"] = 1000;
  EXPECT_TRUE(refused([&] { function_report_of(report); }));
  UpdateRecord take = to_message(TakeRequest{});
  take.header["wait_ms"] = -1;
  EXPECT_TRUE(refused([&] { take_request_of(take); }));
}

TEST(CoordinatorMessages, AWorkerOfAnotherVersionIsRefused) {
  io::StateTree join = to_state(WorkerJoin{});
  join["protocol"] = kCoordinatorProtocol + 1;
  EXPECT_EQ(code_of([&] { worker_join_of(join); }), ErrorCode::kFailedPrecondition);
}

}  // namespace
}  // namespace brigade::ps
