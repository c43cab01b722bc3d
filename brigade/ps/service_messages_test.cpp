#include "brigade/ps/service_messages.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "brigade/base/error.h"
#include "brigade/device/dtypes.h"

namespace brigade::ps {
namespace {

void expect_damaged(const std::function<void()>& read) {
  try {
    read();
    ADD_FAILURE() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
  }
}

/// What arrives.
io::StateTree sent(const io::StateTree& state) {
  return decode_state(encode_state(state));
}
UpdateRecord sent(const UpdateRecord& message) {
  return decode_message(io::shared_bytes(encode_message(message).joined()));
}

bool is_same(const at::Tensor& one, const at::Tensor& other) {
  return one.scalar_type() == other.scalar_type() && at::equal(one, other);
}

TEST(ServiceMessages, SmallArgumentsAndResultsSurvive) {
  const JoinRequest join = join_request_of(sent(to_state(JoinRequest{{"worker", 7}, 3})));
  EXPECT_EQ(join.task, (cluster::Task{"worker", 7}));
  EXPECT_EQ(join.incarnation, 3);

  std::string token(256, '\0');
  for (std::size_t i = 0; i < token.size(); ++i) token[i] = static_cast<char>(i);
  const Grant grant =
      message_of<Grant>(sent(to_state(Grant{token, 4, std::chrono::milliseconds(1234)})));
  EXPECT_EQ(grant.token, token);
  EXPECT_EQ(grant.incarnation, 4);
  EXPECT_EQ(grant.lease, std::chrono::milliseconds(1234));

  const JobConfig job{.mode = UpdateMode::kSync,
                      .staleness = 0,
                      .sync = {.replicas_to_aggregate = 3, .total_replicas = 4}};
  const ServerStatus status =
      message_of<ServerStatus>(sent(to_state(ServerStatus{true, false, 1LL << 40, 0.1, job})));
  EXPECT_TRUE(status.is_created);
  EXPECT_FALSE(status.is_ready);
  EXPECT_EQ(status.step, 1LL << 40);
  EXPECT_EQ(status.learning_rate, 0.1);
  EXPECT_EQ(status.job, job);

  EXPECT_EQ(learning_rate_of(sent(to_state(1e-30))), 1e-30);
  const std::vector<std::string> names{"a", "", "weights/\"0\""};
  EXPECT_EQ(names_of(sent(to_state(names))), names);
}

TEST(ServiceMessages, StepsSurviveWithAndWithoutTheirOptionalParts) {
  const BeginStepRequest plain =
      message_of<BeginStepRequest>(sent(to_state(BeginStepRequest{.finished = 5})));
  EXPECT_EQ(plain.finished, 5);
  EXPECT_FALSE(plain.contribution);
  const coordination::StepDecider::Token token{.step = 9, .index = 2};
  const BeginStepRequest full = message_of<BeginStepRequest>(sent(to_state(
      BeginStepRequest{.finished = 5, .contribution = token, .wait = std::chrono::seconds(2)})));
  EXPECT_EQ(full.contribution, token);
  EXPECT_EQ(full.wait, std::chrono::seconds(2));

  const BeginStepReply waiting = message_of<BeginStepReply>(
      sent(to_state(BeginStepReply{.may_begin = false, .waiting_for = {"/job:worker/task:2"}})));
  EXPECT_FALSE(waiting.may_begin);
  EXPECT_FALSE(waiting.token);
  EXPECT_FALSE(waiting.decision);
  EXPECT_EQ(waiting.waiting_for, std::vector<std::string>{"/job:worker/task:2"});
  const coordination::StepDecision decision{.step = 8, .contributions = {{0, 0}, {0, 1}, {2, 0}}};
  const BeginStepReply reply = message_of<BeginStepReply>(
      sent(to_state(BeginStepReply{.may_begin = true, .token = token, .decision = decision})));
  EXPECT_TRUE(reply.may_begin);
  EXPECT_EQ(reply.token, token);
  EXPECT_EQ(reply.decision, decision);
}

TEST(ServiceMessages, TensorsOfEveryDtypeAndShapeSurvive) {
  ExchangeRequest request{.push = Push{.number = 3}, .pull = {"x"}};
  for (const device::FileDtype& dtype : device::file_dtypes()) {
    for (const std::vector<std::int64_t>& shape :
         std::vector<std::vector<std::int64_t>>{{}, {0}, {2, 0, 3}, {2, 3}}) {
      request.push->gradients.push_back(
          {std::string(dtype.name), at::ones(shape, at::kDouble).to(dtype.type)});
    }
  }
  const ExchangeRequest arrived = exchange_request_of(sent(to_message(request)));
  ASSERT_TRUE(arrived.push);
  ASSERT_EQ(arrived.push->gradients.size(), request.push->gradients.size());
  for (std::size_t i = 0; i < arrived.push->gradients.size(); ++i) {
    EXPECT_EQ(arrived.push->gradients[i].name, request.push->gradients[i].name);
    EXPECT_TRUE(is_same(arrived.push->gradients[i].tensor, request.push->gradients[i].tensor));
  }
}

TEST(ServiceMessages, ExchangesSurviveWithAndWithoutTheirOptionalParts) {
  const ExchangeRequest pull =
      exchange_request_of(sent(to_message(ExchangeRequest{.pull = {"a", "b"}})));
  EXPECT_FALSE(pull.push);
  EXPECT_FALSE(pull.decision);
  EXPECT_EQ(pull.pull, (std::vector<std::string>{"a", "b"}));

  const coordination::StepDecider::Token token{.step = 4, .index = 0};
  const coordination::StepDecision decision{.step = 3, .contributions = {{1, 0}}};
  const ExchangeRequest push = exchange_request_of(sent(to_message(
      ExchangeRequest{.push = Push{.number = 7, .token = token}, .decision = decision})));
  ASSERT_TRUE(push.push);
  EXPECT_EQ(push.push->number, 7);
  EXPECT_EQ(push.push->token, token);
  EXPECT_TRUE(push.push->gradients.empty());
  EXPECT_FALSE(push.push->read_at);
  EXPECT_FALSE(push.push->acknowledge_later);
  EXPECT_FALSE(push.await_disk);
  EXPECT_EQ(push.decision, decision);
  const ExchangeRequest late = exchange_request_of(sent(to_message(ExchangeRequest{
      .push = Push{.number = 8, .read_at = 40, .acknowledge_later = true}, .await_disk = true})));
  EXPECT_EQ(late.push->read_at, 40);
  EXPECT_TRUE(late.push->acknowledge_later);
  EXPECT_TRUE(late.await_disk);

  const ExchangeReply empty = exchange_reply_of(sent(to_message(ExchangeReply{.step = 2})));
  EXPECT_FALSE(empty.verdict);
  EXPECT_TRUE(empty.values.empty());
  EXPECT_EQ(empty.step, 2);
  EXPECT_FALSE(empty.staleness);
  EXPECT_FALSE(empty.acknowledged);
  const ExchangeReply reply = exchange_reply_of(
      sent(to_message(ExchangeReply{.verdict = coordination::PushVerdict::kDuplicate,
                                    .values = {{at::ones({2}), 5}, {at::full({}, 3.0), 6}},
                                    .step = 11,
                                    .staleness = 2,
                                    .acknowledged = 6})));
  EXPECT_EQ(reply.verdict, coordination::PushVerdict::kDuplicate);
  ASSERT_EQ(reply.values.size(), 2u);
  EXPECT_TRUE(is_same(reply.values[0].value, at::ones({2})));
  EXPECT_EQ(reply.values[1].updates, 6);
  EXPECT_EQ(reply.step, 11);
  EXPECT_EQ(reply.staleness, 2);
  EXPECT_EQ(reply.acknowledged, 6);
}

TEST(ServiceMessages, TheTextOfAMessageDoesNotNeedTheElementsOfItsTensors) {
  const auto request_with = [](const at::Tensor& gradient) {
    return to_message(
        ExchangeRequest{.push = Push{.number = 3, .gradients = {{"a", gradient}}, .read_at = 7},
                        .pull = {"a", "b"}});
  };
  const at::Tensor gradient = at::ones({2, 3});
  const std::string text = encode_message_text(request_with(at::ones({}).expand({2, 3})));
  const std::string whole = encode_message(request_with(gradient)).joined();
  EXPECT_EQ(text + std::string(static_cast<const char*>(gradient.const_data_ptr()), 24), whole);
}

TEST(ServiceMessages, RowsSurviveBesideWholeVariables) {
  const at::Tensor indices = at::ones({2}, at::kLong).cumsum(0);
  const ExchangeRequest request{.push = Push{.number = 3,
                                             .gradients = {{"a", at::ones({3})}},
                                             .rows = {{"table", indices, at::ones({2, 4})},
                                                      {"empty", indices, at::ones({0})}}},
                                .pull = {"a"},
                                .pull_rows = {{"table", indices * 2}, {"other", indices}}};
  const ExchangeRequest arrived = exchange_request_of(sent(to_message(request)));
  ASSERT_EQ(arrived.push->gradients.size(), 1u);
  EXPECT_EQ(arrived.push->gradients[0].name, "a");
  ASSERT_EQ(arrived.push->rows.size(), 2u);
  EXPECT_EQ(arrived.push->rows[0].name, "table");
  EXPECT_TRUE(is_same(arrived.push->rows[0].indices, indices));
  EXPECT_TRUE(is_same(arrived.push->rows[0].values, at::ones({2, 4})));
  EXPECT_EQ(arrived.push->rows[1].name, "empty");
  ASSERT_EQ(arrived.pull_rows.size(), 2u);
  EXPECT_EQ(arrived.pull_rows[1].name, "other");
  EXPECT_TRUE(is_same(arrived.pull_rows[0].indices, indices * 2));

  const ExchangeRequest only_rows = exchange_request_of(
      sent(to_message(ExchangeRequest{.pull = {}, .pull_rows = {{"table", indices}}})));
  EXPECT_FALSE(only_rows.push);
  EXPECT_EQ(only_rows.pull_rows.size(), 1u);

  const ExchangeReply reply = exchange_reply_of(sent(to_message(ExchangeReply{
      .values = {{at::ones({2}), 5}}, .rows = {at::ones({2, 4}), at::ones({0, 4})}})));
  ASSERT_EQ(reply.values.size(), 1u);
  ASSERT_EQ(reply.rows.size(), 2u);
  EXPECT_TRUE(is_same(reply.rows[0], at::ones({2, 4})));
}

TEST(ServiceMessages, NumbersOfRowsThatTheTensorsDoNotHaveAreRefused) {
  const at::Tensor indices = at::ones({1}, at::kLong);
  const UpdateRecord message = to_message(
      ExchangeRequest{.push = Push{.number = 3, .rows = {{"table", indices, at::ones({1, 4})}}},
                      .pull = {},
                      .pull_rows = {{"table", indices}}});
  for (const std::int64_t rows : {std::int64_t{-1}, std::int64_t{2}, std::int64_t{1} << 62}) {
    UpdateRecord damaged = message;
    damaged.header["push"]["rows"] = rows;
    expect_damaged([&] { exchange_request_of(damaged); });
    damaged = message;
    damaged.header["pull_rows"] = rows;
    expect_damaged([&] { exchange_request_of(damaged); });
    UpdateRecord reply = to_message(ExchangeReply{.values = {}, .rows = {at::ones({1, 4})}});
    reply.header["rows"] = rows;
    expect_damaged([&] { exchange_reply_of(reply); });
  }
}

TEST(ServiceMessages, CreationsAndStatesSurvive) {
  CreateRequest create;
  create.variables = {{"a", at::ones({2, 2})}, {"b", at::ones({}, at::kLong), false, 0.5, 0.25}};
  create.rule["name"] = "sgd";
  create.job.mode = UpdateMode::kBounded;
  create.job.staleness = 3;
  const CreateRequest created = create_request_of(sent(to_message(create)));
  ASSERT_EQ(created.variables.size(), 2u);
  EXPECT_EQ(created.variables[0].name, "a");
  EXPECT_TRUE(created.variables[0].is_trainable);
  EXPECT_FALSE(created.variables[0].learning_rate);
  EXPECT_FALSE(created.variables[1].is_trainable);
  EXPECT_EQ(created.variables[1].learning_rate, 0.5);
  EXPECT_EQ(created.variables[1].weight_decay, 0.25);
  EXPECT_TRUE(is_same(created.variables[1].value, at::ones({}, at::kLong)));
  EXPECT_EQ(created.rule, create.rule);
  EXPECT_EQ(created.job, create.job);

  const AssignRequest assign{
      .variables = {{"a", {at::ones({2}), {at::full({2}, 3.0), at::full({2}, 4.0)}, 17}},
                    {"b", {at::ones({1}), {}, 0}}},
      .step = 21};
  const AssignRequest assigned = assign_request_of(sent(to_message(assign)));
  EXPECT_EQ(assigned.step, 21);
  ASSERT_EQ(assigned.variables.size(), 2u);
  ASSERT_EQ(assigned.variables[0].state.slots.size(), 2u);
  EXPECT_TRUE(is_same(assigned.variables[0].state.slots[1], at::full({2}, 4.0)));
  EXPECT_EQ(assigned.variables[0].state.updates, 17);
  EXPECT_EQ(assigned.variables[1].name, "b");
  EXPECT_TRUE(assigned.variables[1].state.slots.empty());
  const StoredStates states = {.variables = assign.variables,
                               .step = 6,
                               .decision = coordination::StepDecision{
                                   .step = 5, .contributions = {{.worker = 1, .index = 0}}}};
  const StoredStates returned = states_of(sent(to_message(states)));
  EXPECT_EQ(returned.variables.size(), 2u);
  EXPECT_EQ(returned.step, 6);
  EXPECT_EQ(returned.decision, states.decision);
  EXPECT_FALSE(states_of(sent(to_message(StoredStates{}))).decision.has_value());
}

TEST(ServiceMessages, AnotherVersionOfTheProtocolIsNamed) {
  io::StateTree state = to_state(JoinRequest{});
  state["protocol"] = kServiceProtocol + 1;
  try {
    join_request_of(state);
    FAIL() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  }
}

TEST(ServiceMessages, DamagedBytesAreRefused) {
  const std::string whole =
      encode_message(to_message(ExchangeRequest{
                         .push = Push{.number = 1, .gradients = {{"a", at::ones({3})}}}}))
          .joined();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    expect_damaged(
        [&] { exchange_request_of(decode_message(io::shared_bytes(whole.substr(0, size)))); });
  }
  expect_damaged([&] { decode_message(io::shared_bytes(whole + "x")); });
  expect_damaged(
      [&] { decode_message(io::shared_bytes(std::string(64, '\xff'))); });  // a huge length
  expect_damaged([] { decode_state("{"); });
  expect_damaged([] { decode_state(std::string(kLongestText + 1, ' ')); });
}

TEST(ServiceMessages, MessagesThatDoNotFitTogetherAreRefused) {
  const auto changed = [](UpdateRecord message, std::string_view key, io::StateTree value) {
    message.header[key] = std::move(value);
    return message;
  };
  const UpdateRecord states =
      to_message(StoredStates{.variables = {{"a", {at::ones({2}), {at::ones({2})}, 1}}}});
  expect_damaged([&] { states_of(changed(states, "variables", io::StateTree::list())); });
  UpdateRecord missing = states;
  missing.tensors.pop_back();
  expect_damaged([&] { states_of(missing); });

  UpdateRecord push = to_message(ExchangeRequest{.push = Push{.number = 1, .read_at = 3}});
  push.header["push"]["read_at"] = std::int64_t{-1};
  expect_damaged([&] { exchange_request_of(push); });
  const UpdateRecord reply = to_message(ExchangeReply{.step = 1});
  expect_damaged([&] { exchange_reply_of(changed(reply, "staleness", std::int64_t{-1})); });
  for (const std::int64_t verdict : {std::int64_t{-1}, std::int64_t{4}, std::int64_t{1} << 40})
    expect_damaged([&] { exchange_reply_of(changed(reply, "verdict", verdict)); });

  UpdateRecord pull = to_message(ExchangeRequest{});
  pull.tensors.push_back({"a", at::ones({1})});
  expect_damaged([&] { exchange_request_of(pull); });

  io::StateTree wait = to_state(BeginStepRequest{});
  for (const std::int64_t time : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
    wait["wait_ms"] = time;
    expect_damaged([&] { message_of<BeginStepRequest>(wait); });
  }
  io::StateTree grant = to_state(Grant{.token = "ab"});
  for (const char* token : {"abc", "zz", "+1"}) {
    grant["token"] = token;
    expect_damaged([&] { message_of<Grant>(grant); });
  }
  expect_damaged([] { join_request_of(io::StateTree("text")); });
}

}  // namespace
}  // namespace brigade::ps
