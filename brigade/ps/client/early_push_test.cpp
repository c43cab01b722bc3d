#include "brigade/ps/client/early_push.h"

#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "brigade/base/testing/error_code.h"
#include "brigade/concurrency/testing/waiting.h"
#include "brigade/ps/testing/client_checks.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using concurrency::testing::result_of;
using concurrency::testing::start;
using testing::Client;
using testing::expect_all;
using testing::kAsyncJob;
using testing::kBoundedJob;
using testing::kImpatient;
using testing::kSyncJob;
using testing::kWorker0;
using testing::LocalServers;
using testing::make_chief;
using testing::make_servers;
using testing::make_worker;
using testing::ServiceCall;
using testing::small_gradients;

/// The variables of the small model that are trained, from the last.
constexpr std::array<std::size_t, 4> kBackward = {4, 3, 1, 0};

LocalServers make_early_servers(int count) {
  LocalServers servers = make_servers(count);
  for (int i = 0; i < count; ++i) servers[i].take_early(true);
  return servers;
}

void begin_early(ParameterClient& client) {
  client.begin_early({kBackward.begin(), kBackward.end()});
}

/// Sends the first `count` gradients.
void send_early(ParameterClient& client, const std::vector<at::Tensor>& gradients,
                std::size_t count) {
  begin_early(client);
  for (std::size_t i = 0; i < count; ++i) client.send_early(gradients[kBackward[i]]);
}

TEST(EarlyPush, ServersApplyWhatWasSentEarlyAndTheRestAsOnePush) {
  for (const JobConfig& job : {kAsyncJob, kBoundedJob}) {
    LocalServers servers = make_early_servers(2);
    const Client chief = make_chief(servers, job);
    for (int step = 0; step < 5; ++step) {
      chief->begin_step();
      const auto gradients = small_gradients(step + 1);
      send_early(*chief, gradients, static_cast<std::size_t>(step));
      expect_all(chief->push(gradients), -(step + 1) * (step + 2) / 2, step + 1);
    }
    for (int server = 0; server < 2; ++server) {
      EXPECT_EQ(servers[server].finished(), 5);
      EXPECT_EQ(servers[server].core().counters().pushes, 5);
    }
  }
}

TEST(EarlyPush, SynchronousGradientsAreKeptForTheirTokens) {
  LocalServers servers = make_early_servers(2);
  const Client chief = make_chief(servers, kSyncJob);
  const Client worker = make_worker(servers, kWorker0, kSyncJob);
  worker->pull();  // now it knows the variables
  for (int step = 1; step <= 3; ++step) {
    chief->begin_step();
    auto token = start([&] { worker->begin_step(); });
    result_of(token);
    for (ParameterClient* client : {chief.get(), worker.get()}) {
      const auto gradients = small_gradients(client == chief.get() ? 1 : 2);
      send_early(*client, gradients, 2);
      client->push(gradients);
    }
    auto next = start([&] { worker->begin_step(); });
    chief->begin_step();
    result_of(next);
    expect_all(chief->pull(), -3.0 * step, step);
  }
  for (int server = 0; server < 2; ++server) EXPECT_EQ(servers[server].finished(), 6);
}

TEST(EarlyPush, GradientsAreRoundedToThePushDtype) {
  LocalServers servers = make_early_servers(2);
  const Client chief = make_chief(servers, kAsyncJob, {.push_dtype = at::kBFloat16});
  const auto gradients = small_gradients(257);  // 256 in bfloat16
  send_early(*chief, gradients, 2);
  expect_all(chief->push(gradients), -256, 1);
  for (int server = 0; server < 2; ++server) EXPECT_EQ(servers[server].finished(), 1);
}

TEST(EarlyPush, APushOfOtherGradientsSendsItsOwn) {
  LocalServers servers = make_early_servers(2);
  const Client chief = make_chief(servers, kAsyncJob);
  const auto other = small_gradients(100);
  double sum = 0;
  int updates = 0;
  // Other tensors than were sent.
  send_early(*chief, other, 3);
  expect_all(chief->push(small_gradients(1)), sum -= 1, ++updates);
  // Others after the first.
  auto gradients = small_gradients(1);
  send_early(*chief, gradients, 2);
  gradients[kBackward[0]] = at::full_like(gradients[kBackward[0]], 1);
  expect_all(chief->push(gradients), sum -= 1, ++updates);
  // More than were expected.
  chief->begin_early({4, 1});
  gradients = small_gradients(1);
  chief->send_early(gradients[4]);
  expect_all(chief->push(gradients), sum -= 1, ++updates);
  // A form that does not fit.
  begin_early(*chief);
  chief->send_early(at::full_like(gradients[0], 1));
  expect_all(chief->push(gradients), sum -= 1, ++updates);
  // Fewer than were expected.
  gradients = small_gradients(1);
  send_early(*chief, gradients, 1);
  gradients[0].reset();
  const ParameterClient::Values fewer = chief->push(gradients);
  EXPECT_EQ(fewer.values[0].updates, updates);
  EXPECT_EQ(fewer.values[4].updates, updates + 1);
  for (int server = 0; server < 2; ++server) {
    EXPECT_EQ(servers[server].finished(), 0);
    EXPECT_EQ(servers[server].core().counters().pushes, updates + 1);
  }
}

TEST(EarlyPush, APushThatIsGivenUpLeavesTheServersAsTheyWere) {
  LocalServers servers = make_early_servers(2);
  const Client chief = make_chief(servers, kAsyncJob);
  send_early(*chief, small_gradients(100), kBackward.size());
  chief->drop_early();
  expect_all(chief->pull(), 0, 0);
  send_early(*chief, small_gradients(100), kBackward.size());
  expect_all(chief->pull(), 0, 0);  // which does not complete it
  const auto gradients = small_gradients(1);
  send_early(*chief, gradients, 3);  // instead of that one
  expect_all(chief->push(gradients), -1, 1);
  for (int server = 0; server < 2; ++server) {
    EXPECT_EQ(servers[server].begun(), 3);
    EXPECT_EQ(servers[server].finished(), 1);
    EXPECT_EQ(servers[server].core().counters().pushes, 1);
  }
}

TEST(EarlyPush, APushWhoseAnswerIsLostIsAppliedOnceAndTheNextAreSentAsAWhole) {
  LocalServers servers = make_early_servers(1);
  const Client chief = make_chief(servers, kAsyncJob);
  servers[0].lose_replies(ServiceCall::kExchange);
  for (int step = 1; step <= 110; ++step) {
    const auto gradients = small_gradients(1);
    send_early(*chief, gradients, 2);
    expect_all(chief->push(gradients), -step, step);
  }
  EXPECT_EQ(servers[0].core().counters().duplicates, 1);
  EXPECT_EQ(servers[0].begun(), 1 + 9) << "after 100 pushes it is tried again";
}

TEST(EarlyPush, AServerThatIsRestartedMeanwhileGetsThePushAsAWhole) {
  LocalServers servers = make_early_servers(2);
  const Client chief = make_chief(servers, kAsyncJob);
  const auto gradients = small_gradients(1);
  send_early(*chief, gradients, 3);
  servers[0].restart();
  expect_all(chief->push(gradients), -1, 1);
  const auto more = small_gradients(2);
  send_early(*chief, more, 3);
  expect_all(chief->push(more), -3, 2);
}

TEST(EarlyPush, ItsSendsAreCallsOfTheClient) {
  const auto clock = std::make_shared<CallClock>();
  int sends = 0;
  LocalServers servers = make_early_servers(1);
  const Client chief = make_chief(servers, kAsyncJob, {.calls = clock});
  servers[0].before_calls([&](ServiceCall call) {
    if (call != testing::kSendEarly) return;
    ++sends;
    EXPECT_TRUE(clock->in_call_since().has_value()) << sends;
  });
  send_early(*chief, small_gradients(1), 2);
  EXPECT_EQ(sends, 3);
  EXPECT_FALSE(clock->in_call_since().has_value());
}

TEST(EarlyPush, AnUnfinishedPushIsCompletedBeforeAnythingIsSentEarly) {
  LocalServers servers = make_early_servers(2);
  const Client chief = make_chief(servers, kAsyncJob, {.server_timeout = kImpatient});
  servers[1].stop();
  EXPECT_EQ(code_of([&] { chief->push(small_gradients(1)); }), ErrorCode::kUnavailable);
  servers[1].start();
  const auto gradients = small_gradients(2);
  send_early(*chief, gradients, 3);
  EXPECT_EQ(servers[0].begun(), 1);
  EXPECT_EQ(servers[1].begun(), 0);
  expect_all(chief->push(gradients), -3, 2);
}

}  // namespace
}  // namespace brigade::ps
