#include "brigade/ps/pair_messages.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/ps/service_messages.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using coordination::PairRole;
using coordination::PairStatus;

const PairStatus kActingStatus = {
    .life = "ab", .role = PairRole::kActing, .epoch = 7, .is_restored = true, .candidacy = 3};

/// As the other process gets it.
UpdateRecord sent_to_pair(const UpdateRecord& message) {
  return decode_message(io::shared_bytes(encode_message(message).joined()));
}

TEST(PairMessages, SmallOnesKeepEverything) {
  EXPECT_EQ(message_of<coordination::PairStatus>(to_state(kActingStatus)), kActingStatus);
  const RoleReply role{.status = kActingStatus, .follow_token = std::string("\0\xff token", 8)};
  EXPECT_EQ(message_of<RoleReply>(decode_state(encode_state(to_state(role)))).status,
            kActingStatus);
  EXPECT_EQ(message_of<RoleReply>(to_state(role)).follow_token, role.follow_token);
  const Vote vote = message_of<Vote>(to_state(
      Vote{.voter = {.job = "worker", .index = 3}, .epoch = 12, .life = "ef", .candidacy = 4}));
  EXPECT_EQ(vote.voter, (cluster::Task{.job = "worker", .index = 3}));
  EXPECT_EQ(vote.epoch, 12);
  EXPECT_EQ(vote.life, "ef");
  EXPECT_EQ(vote.candidacy, 4);
}

TEST(PairMessages, RequestsKeepEverything) {
  const FollowRequest request{.from = kActingStatus,
                              .number = 5,
                              .source = {.life = "cd", .epoch = 6},
                              .applied = 100,
                              .part = 2,
                              .wait = std::chrono::milliseconds(250),
                              .knows_end = true};
  const FollowRequest got = follow_request_of(sent_to_pair(to_message(request)));
  EXPECT_EQ(got.from, request.from);
  EXPECT_EQ(got.number, 5);
  EXPECT_EQ(got.source, request.source);
  EXPECT_EQ(got.applied, 100);
  EXPECT_EQ(got.part, 2);
  EXPECT_EQ(got.wait, request.wait);
  EXPECT_TRUE(got.knows_end);
  EXPECT_EQ(follow_request_of(to_message(FollowRequest{})).part, std::nullopt);
}

TEST(PairMessages, RepliesKeepRecords) {
  FollowReply reply{.status = kActingStatus, .is_finished = true, .is_complete = true};
  reply.records = {io::shared_bytes("one"), io::shared_bytes(""), io::shared_bytes("three")};
  const FollowReply got = follow_reply_of(sent_to_pair(to_message(reply)));
  EXPECT_EQ(got.status, kActingStatus);
  EXPECT_TRUE(got.is_finished && got.is_complete && !got.must_fill && !got.part);
  ASSERT_EQ(got.records.size(), 3u);
  EXPECT_EQ(got.records[0].bytes, "one");
  EXPECT_EQ(got.records[1].bytes, "");
  EXPECT_EQ(got.records[2].bytes, "three");
}

TEST(PairMessages, RepliesKeepAState) {
  StatePart part{.covered = 9, .parts = 4};
  part.state["step"] = 3;
  part.tensors = {{"value/w", at::arange(5)}};
  const FollowReply got =
      follow_reply_of(sent_to_pair(to_message(FollowReply{.status = kActingStatus, .part = part})));
  ASSERT_TRUE(got.part);
  EXPECT_EQ(got.part->covered, 9);
  EXPECT_EQ(got.part->parts, 4);
  EXPECT_EQ(got.part->state, part.state);
  ASSERT_EQ(got.part->tensors.size(), 1u);
  EXPECT_EQ(got.part->tensors[0].name, "value/w");
  EXPECT_TRUE(at::equal(got.part->tensors[0].tensor, at::arange(5)));
}

TEST(PairMessages, WhatCannotHaveBeenWrittenIsRefused) {
  const auto refused = [](const auto& read) {
    return code_of(read) == ErrorCode::kInvalidArgument;
  };
  io::StateTree status = to_state(kActingStatus);
  status["role"] = 9;
  EXPECT_TRUE(refused([&] { message_of<coordination::PairStatus>(status); }));
  status["role"] = 1;
  status["epoch"] = -1;
  EXPECT_TRUE(refused([&] { message_of<coordination::PairStatus>(status); }));
  EXPECT_TRUE(refused([] { message_of<Vote>({}); }));
  EXPECT_TRUE(refused([] { follow_request_of({}); }));
  EXPECT_TRUE(refused([] { follow_reply_of({}); }));
  UpdateRecord reply = to_message(FollowReply{.status = kActingStatus});
  reply.tensors = {{"", at::arange(5)}};
  EXPECT_TRUE(refused([&] { follow_reply_of(reply); })) << "a record is bytes";
  UpdateRecord request = to_message(FollowRequest{});
  request.header["applied"] = -1;
  EXPECT_TRUE(refused([&] { follow_request_of(request); }));
}

}  // namespace
}  // namespace brigade::ps
