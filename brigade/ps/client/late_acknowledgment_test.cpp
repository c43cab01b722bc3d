// Pushes that are acknowledged after their answers, and servers that come back without them.
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "brigade/base/testing/error_code.h"
#include "brigade/io/testing/crashing_file_system.h"
#include "brigade/io/testing/gated_file_system.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/ps/client/server_session.h"
#include "brigade/ps/testing/small_job.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using coordination::PushVerdict;

at::Tensor scale_of(double value) {
  return at::full({}, value, at::kDouble);
}

ParameterService::Time in_half_a_minute() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(30);
}

/// The chief's session with a server that has the small model, and whose disk can be slow.
class LateAcknowledgmentTest : public ::testing::Test {
 protected:
  LateAcknowledgmentTest() {
    session_.join(0);
    session_.call([](ParameterService& service, const std::string& token, auto deadline) {
      return service.create(token,
                            {.variables = testing::small_model(),
                             .rule = optim::Sgd{.learning_rate = 1}.rule()->config(),
                             .job = {}},
                            deadline);
    });
  }

  ExchangeReply push(double value, const char* name = "scale") {
    const at::Tensor gradient = scale_of(value);
    ExchangeReply reply = session_.exchange(
        {.push = Push{.gradients = {{.name = name, .tensor = gradient}}, .acknowledge_later = true},
         .pull = {"scale"}});
    gradient.fill_(1000);  // the caller may use it again
    return reply;
  }
  double pull() { return session_.exchange({.pull = {"scale"}}).values.at(0).value.item<double>(); }
  /// Pushes, and returns the disk as it is while the push is on its way there.
  std::shared_ptr<io::CrashingFileSystem> push_to_slow_disk(double value) {
    session_.await_disk();
    disk_->close_gate();
    push(value);
    disk_->await_sync();
    return files_->crash({});
  }
  /// The server's machine stops and starts again, with this on its disk.
  void crash(const std::shared_ptr<io::CrashingFileSystem>& left) {
    disk_->open_gate();
    server_.restart_on(left);
  }

  const std::shared_ptr<io::CrashingFileSystem> files_ = std::make_shared<io::CrashingFileSystem>();
  const std::shared_ptr<io::GatedFileSystem> disk_ = std::make_shared<io::GatedFileSystem>(files_);
  testing::LocalServer server_{
      {.core = {.tasks = testing::kTasks, .store = {.folder = "/ps"}}, .files = disk_}};
  ServerSession session_{server_.connect(),
                         {.task = testing::kChief, .server_timeout = std::chrono::seconds(30)}};
};

TEST_F(LateAcknowledgmentTest, AServerThatLostTheLastPushGetsItBeforeAnythingElse) {
  push(1);
  const auto left = push_to_slow_disk(2);
  EXPECT_EQ(pull(), -3) << "it is applied";
  crash(left);
  EXPECT_EQ(server_.core().status().step, 1) << "and lost";
  EXPECT_EQ(pull(), -3);
  EXPECT_EQ(server_.core().counters().pushes, 1);
  EXPECT_FALSE(session_.has_unacknowledged());
  EXPECT_EQ(push(4).values.at(0).value.item<double>(), -7);
}

TEST_F(LateAcknowledgmentTest, TheCopyThatAServiceHasMadeIsSentAgain) {
  server_.copy_pushes(true);
  server_.lose_replies(testing::ServiceCall::kExchange);
  push(1);
  crash(push_to_slow_disk(2));
  const ExchangeReply reply = push(4);
  EXPECT_EQ(reply.values.at(0).value.item<double>(), -7);
  EXPECT_FALSE(reply.sent.has_value()) << "it is the session's";
}

TEST_F(LateAcknowledgmentTest, TheNextPushFollowsTheLostOne) {
  push(1);
  crash(push_to_slow_disk(2));
  const ExchangeReply reply = push(4);
  EXPECT_EQ(reply.verdict, PushVerdict::kApply);
  EXPECT_EQ(reply.values.at(0).value.item<double>(), -7);
  EXPECT_EQ(server_.core().status().step, 3);
}

TEST_F(LateAcknowledgmentTest, APushThatIsOnTheDiskIsNotAppliedAgain) {
  push(1);
  session_.await_disk();
  crash(files_->crash({}));
  EXPECT_EQ(pull(), -1);
  EXPECT_EQ(server_.core().counters().duplicates, 0) << "nor sent";
  push(2);
  server_.restart();  // which syncs it
  EXPECT_EQ(pull(), -3);
  EXPECT_EQ(server_.core().counters().duplicates, 1);
}

TEST_F(LateAcknowledgmentTest, ARefusedPushDoesNotReplaceTheCopyOfTheLastOne) {
  push(1);
  const auto left = push_to_slow_disk(2);
  EXPECT_EQ(code_of([&] { push(7, "nothing"); }), ErrorCode::kNotFound);
  EXPECT_EQ(code_of([&] { push(7, "nothing"); }), ErrorCode::kNotFound);
  crash(left);
  EXPECT_EQ(pull(), -3);
}

TEST_F(LateAcknowledgmentTest, APushWhoseAnswerIsLostIsCompleted) {
  push(1);
  server_.lose_replies(testing::ServiceCall::kExchange);
  EXPECT_EQ(push(2).values.at(0).value.item<double>(), -3);
  crash(push_to_slow_disk(4));
  server_.lose_replies(testing::ServiceCall::kExchange, 2);
  EXPECT_EQ(push(8).values.at(0).value.item<double>(), -15);
}

TEST_F(LateAcknowledgmentTest, WhatWasSentEarlyIsKeptToo) {
  server_.take_early(true);
  push(1);
  session_.await_disk();
  disk_->close_gate();
  const at::Tensor early = scale_of(2), late = at::full({4}, 2, at::kDouble);
  const ExchangeRequest request{.push = Push{.gradients = {{.name = "scale", .tensor = early},
                                                           {.name = "offset", .tensor = late}},
                                             .acknowledge_later = true},
                                .pull = {"scale"}};
  session_.begin_early(request);
  session_.send_early(early);
  session_.exchange(request);
  EXPECT_EQ(server_.finished(), 1);
  late.fill_(1000);
  disk_->await_sync();
  crash(files_->crash({}));
  EXPECT_EQ(pull(), -3);
  const auto values = session_.exchange({.pull = {"offset"}}).values;
  EXPECT_TRUE(at::equal(values.at(0).value, at::full({4}, -2, at::kDouble)));
}

TEST_F(LateAcknowledgmentTest, WhatWasSentEarlyAndChangedCannotBeSentAgain) {
  server_.take_early(true);
  push(1);
  session_.await_disk();
  disk_->close_gate();
  const at::Tensor gradient = scale_of(2);
  const ExchangeRequest request{
      .push = Push{.gradients = {{.name = "scale", .tensor = gradient}}, .acknowledge_later = true},
      .pull = {"scale"}};
  session_.begin_early(request);
  session_.send_early(gradient);
  session_.exchange(request);
  gradient.fill_(1000);  // as a hook that has kept it
  disk_->await_sync();
  crash(files_->crash({}));
  EXPECT_EQ(code_of([&] { pull(); }), ErrorCode::kDataLoss);
}

TEST_F(LateAcknowledgmentTest, APushThatReplacesAnEarlyOneIsCopied) {
  server_.take_early(true);
  push(1);
  session_.await_disk();
  ServerSession other(server_.connect(),
                      {.task = testing::kWorker0, .server_timeout = std::chrono::seconds(30)});
  other.join(0);
  session_.call([](ParameterService& service, const std::string& token, auto deadline) {
    service.set_ready(token, deadline);
    return true;
  });
  const auto request = [](const at::Tensor& of) {
    return ExchangeRequest{
        .push = Push{.gradients = {{.name = "scale", .tensor = of}}, .acknowledge_later = true},
        .pull = {"scale"}};
  };
  disk_->close_gate();
  other.exchange(request(scale_of(4)));
  disk_->await_sync();  // the next record is written when this one is on the disk
  const at::Tensor early = scale_of(500), gradient = scale_of(2);
  session_.begin_early(request(early));
  session_.send_early(early);
  session_.exchange(request(gradient));
  EXPECT_EQ(server_.finished(), 0);
  gradient.fill_(1000);
  disk_->open_gate();
  session_.await_disk();
  server_.restart_on(files_->crash({}));
  EXPECT_EQ(pull(), -7);
}

TEST_F(LateAcknowledgmentTest, ATaskLeavesWhenItsPushesAreOnTheDisk) {
  push(1);
  const auto left = push_to_slow_disk(2);
  crash(left);
  session_.leave(in_half_a_minute());
  EXPECT_FALSE(session_.has_unacknowledged());
  EXPECT_TRUE(server_.core().has_chief_finished());
  crash(left->crash({}));
  EXPECT_EQ(server_.core().status().step, 2);
}

TEST_F(LateAcknowledgmentTest, AServerThatLostMoreIsDataLoss) {
  const auto first = files_->crash({});
  push(1);
  push(2);
  session_.await_disk();
  push(4);
  crash(first);
  EXPECT_EQ(code_of([&] { pull(); }), ErrorCode::kDataLoss);
}

TEST(ParameterClientAcknowledgments, APushMayWaitForTheDisk) {
  auto files = std::make_shared<io::CrashingFileSystem>();
  testing::LocalServers servers({.servers = 2, .tasks = testing::kTasks, .files = files});
  const auto chief = testing::make_chief(servers, {}, {.wait_for_disk = true});
  for (int step = 1; step <= 5; ++step) {
    chief->push(testing::small_gradients(1));
    files = files->crash({});
    for (int server = 0; server < 2; ++server) servers[server].restart_on(files);
    for (int server = 0; server < 2; ++server)
      EXPECT_EQ(servers[server].core().status().step, step);
  }
}

TEST(ParameterClientAcknowledgments, StatesAreReadWhenThePushesAreOnTheDisk) {
  const auto disk = std::make_shared<io::GatedFileSystem>(std::make_shared<io::MemoryFileSystem>());
  testing::LocalServers servers({.tasks = testing::kTasks, .files = disk});
  const auto chief =
      testing::make_chief(servers, {}, {.server_timeout = std::chrono::milliseconds(300)});
  chief->push(testing::small_gradients(1));
  EXPECT_EQ(chief->states().step, 1);
  disk->close_gate();
  chief->push(testing::small_gradients(1));
  disk->await_sync();
  EXPECT_EQ(code_of([&] { chief->states(); }), ErrorCode::kUnavailable);
  disk->open_gate();
  EXPECT_EQ(chief->states().step, 2);
}

}  // namespace
}  // namespace brigade::ps
