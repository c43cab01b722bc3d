#include "brigade/ps/coordinator/remote_coordinator.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/base/testing/manual_clock.h"
#include "brigade/ps/coordinator/coordinator_core.h"
#include "brigade/ps/coordinator/coordinator_messages.h"
#include "brigade/ps/parameter_service.h"
#include "brigade/ps/service_messages.h"
#include "brigade/rpc/message_service.h"

namespace brigade::ps {
namespace {

const cluster::Task kRemoteWorker = {.job = "worker", .index = 0};

CoordinatorService::Time within(std::chrono::milliseconds time = std::chrono::seconds(30)) {
  return std::chrono::steady_clock::now() + time;
}

/// A coordinator of one worker, with its network.
class RemoteCoordinatorTest : public ::testing::Test {
 protected:
  RemoteValue schedule(const FunctionData& arguments = {}) {
    return core.schedule({.function = "step", .arguments = arguments}, within());
  }

  base::ManualClock clock;
  CoordinatorCore core{CoordinatorCoreOptions{.workers = {kRemoteWorker}}, clock};
  const std::unique_ptr<CoordinatorListener> listener =
      std::make_unique<CoordinatorListener>(core, CoordinatorListenerOptions{});
  const std::unique_ptr<CoordinatorService> remote =
      connect_to_coordinator(listener->address(), std::nullopt);
};

TEST_F(RemoteCoordinatorTest, AWorkerJoinsRunsAFunctionAndLeaves) {
  EXPECT_EQ(remote->name(), listener->address());
  const WorkerGrant grant = remote->join({.task = kRemoteWorker}, within());
  EXPECT_EQ(grant.incarnation, 1);
  EXPECT_EQ(grant.lease, std::chrono::seconds(8));
  EXPECT_FALSE(remote->take(grant.token, {}, within()).work);

  const at::Tensor x = at::arange(3 << 20, at::kFloat);  // 12 MiB
  const RemoteValue value = schedule({.tensors = {{"x", x}}});
  const TakeReply reply = remote->take(grant.token, {}, within());
  ASSERT_TRUE(reply.work);
  EXPECT_TRUE(at::equal(reply.work->arguments.tensor("x"), x));
  EXPECT_TRUE(remote->renew(grant.token, reply.work->id, within()).is_wanted);
  remote->finish(grant.token,
                 {.coordinator = grant.coordinator,
                  .id = reply.work->id,
                  .result = {.tensors = {{"y", x * 2}}}},
                 within());
  EXPECT_TRUE(at::equal(value.get(std::chrono::seconds(30)).tensor("y"), x * 2));
  EXPECT_FALSE(remote->renew(grant.token, reply.work->id, within()).is_wanted);
  remote->leave(grant.token, within());
  EXPECT_EQ(core.num_present(), 0);
}

TEST_F(RemoteCoordinatorTest, ErrorsKeepTheirTypes) {
  const WorkerGrant earlier = remote->join({.task = kRemoteWorker}, within());
  const WorkerGrant later = remote->join({.task = kRemoteWorker}, within());
  EXPECT_EQ(later.incarnation, 2);
  EXPECT_THROW(remote->take(earlier.token, {}, within()), NotMemberError);
  EXPECT_THROW(remote->finish(earlier.token, {.id = 1}, within()), NotMemberError);
  EXPECT_THROW(remote->renew(earlier.token, 0, within()), NotMemberError);
  EXPECT_THROW(remote->leave(earlier.token, within()), NotMemberError);
  EXPECT_THROW(remote->join({.task = kRemoteWorker,
                             .incarnation = earlier.incarnation,
                             .coordinator = earlier.coordinator},
                            within()),
               ReplacedError);
  EXPECT_EQ(base::testing::code_of(
                [&] { remote->join({.task = {.job = "worker", .index = 7}}, within()); }),
            ErrorCode::kNotFound);
}

TEST_F(RemoteCoordinatorTest, AWaitingCallEndsWithAFunction) {
  const WorkerGrant grant = remote->join({.task = kRemoteWorker}, within());
  const auto take = [&] {
    return remote->take(grant.token, {.wait = std::chrono::seconds(30)}, within()).work.has_value();
  };
  auto taken = std::async(std::launch::async, take);
  schedule();
  EXPECT_TRUE(taken.get());
  // A worker asks again for what it has not reported, which needs no wait.
  EXPECT_TRUE(take());
}

TEST_F(RemoteCoordinatorTest, WhatAStrangerSendsIsNotRead) {
  schedule();
  const auto client = rpc::make_message_client(listener->address(), std::nullopt);
  const auto kind_of_small = [&](CoordinatorMethod method) -> std::string {
    try {
      client->call(static_cast<int>(method), "a stranger's", "no message", within());
    } catch (const rpc::MessageError& error) {
      return error.kind();
    } catch (const Error& error) {
      return std::string(to_string(error.code()));
    }
    return "none";
  };
  EXPECT_EQ(kind_of_small(CoordinatorMethod::kRenew), kNotMemberKind);
  EXPECT_EQ(kind_of_small(CoordinatorMethod::kLeave), kNotMemberKind);
  EXPECT_EQ(kind_of_small(CoordinatorMethod::kJoin), to_string(ErrorCode::kInvalidArgument));
  EXPECT_EQ(kind_of_small(CoordinatorMethod::kTake), to_string(ErrorCode::kInvalidArgument))
      << "a large call made as a small one";
  EXPECT_EQ(kind_of_small(static_cast<CoordinatorMethod>(99)),
            to_string(ErrorCode::kInvalidArgument));
  EXPECT_THROW(remote->take("a stranger's", {}, within()), NotMemberError);
  EXPECT_EQ(core.num_present(), 0);
  EXPECT_FALSE(core.is_idle()) << "nobody has taken the function";
}

TEST(CoordinatorListener, NeedsWorkers) {
  base::ManualClock clock;
  CoordinatorCore core({.workers = {kRemoteWorker}}, clock);
  EXPECT_EQ(base::testing::code_of([&] { CoordinatorListener(core, {.workers = 0}); }),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::ps
