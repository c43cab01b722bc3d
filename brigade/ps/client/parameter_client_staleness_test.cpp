#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "brigade/base/testing/error_code.h"
#include "brigade/concurrency/testing/waiting.h"
#include "brigade/ps/testing/client_checks.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using concurrency::testing::kLong;
using testing::Client;
using testing::expect_all;
using testing::kAsyncJob;
using testing::kImpatient;
using testing::kSyncJob;
using testing::kWorker1;
using testing::LocalServers;
using testing::make_chief;
using testing::make_servers;
using testing::make_worker;
using testing::ServiceCall;
using testing::small_gradients;

TEST(ParameterClientStaleness, APushIsAsStaleAsTheUpdatesOfOthersSinceItsValuesAreMany) {
  LocalServers servers = make_servers(2);
  const Client chief = make_chief(servers, kAsyncJob);
  const Client worker = make_worker(servers, kWorker1, kAsyncJob);
  chief->pull();
  worker->pull();
  EXPECT_EQ(worker->push(small_gradients(1)).staleness, 0);
  EXPECT_EQ(chief->push(small_gradients(1)).staleness, 1);
  EXPECT_EQ(chief->push(small_gradients(1)).staleness, 0) << "its own updates do not count";
  EXPECT_EQ(chief->push(small_gradients(1)).staleness, 0);
  EXPECT_EQ(worker->push(small_gradients(1)).staleness, 3);
  worker->push(small_gradients(1));
  chief->states();
  EXPECT_EQ(chief->push(small_gradients(1)).staleness, 0) << "it has read all for a checkpoint";
  EXPECT_FALSE(chief->pull().staleness.has_value());
}

TEST(ParameterClientStaleness, ASynchronousPushHasNoStaleness) {
  LocalServers servers = make_servers(2);
  const Client chief = make_chief(servers, kSyncJob);
  chief->begin_step();
  EXPECT_FALSE(chief->push(small_gradients(1)).staleness.has_value());
}

TEST(ParameterClientStaleness, ItsOwnFailedPushDoesNotMakeTheNextStale) {
  LocalServers servers = make_servers(1);
  const Client chief = make_chief(servers, kAsyncJob, {.server_timeout = kImpatient});
  chief->pull();
  servers[0].lose_replies(ServiceCall::kExchange);
  EXPECT_FALSE(chief->push(small_gradients(1)).staleness.has_value()) << "that answer was lost";
  EXPECT_EQ(chief->push(small_gradients(1)).staleness, 0);
  servers[0].lose_replies(ServiceCall::kExchange, 1'000'000);
  EXPECT_EQ(code_of([&] { chief->push(small_gradients(1)); }), ErrorCode::kUnavailable);
  servers[0].lose_replies(ServiceCall::kExchange, 0);
  EXPECT_EQ(chief->push(small_gradients(1)).staleness, 0) << "its failed push is none of others";
  expect_all(chief->pull(), -4, 4);
}

TEST(ParameterClientStaleness, APullSaysBetweenWhichStepsItsValuesAre) {
  // Before the clients, which make calls until their end.
  std::promise<void> first_was_read;
  std::atomic<int> of_first{0}, of_second{0};
  LocalServers servers = make_servers(2);
  const Client chief = make_chief(servers, kAsyncJob);
  const Client worker = make_worker(servers, kWorker1, kAsyncJob);
  worker->pull();
  servers[0].after_calls([&](ServiceCall call) {
    if (call == ServiceCall::kExchange && ++of_first == 1) first_was_read.set_value();
  });
  servers[1].before_calls([&](ServiceCall call) {
    if (call != ServiceCall::kExchange || ++of_second > 1) return;
    ASSERT_EQ(first_was_read.get_future().wait_for(kLong), std::future_status::ready);
    for (int i = 0; i < 3; ++i) worker->push(small_gradients(1));
  });
  const ParameterClient::Values mixed = chief->pull();
  EXPECT_EQ(mixed.step, 0);
  EXPECT_EQ(mixed.oldest_step, 0);
  EXPECT_EQ(mixed.newest_step, 3);
  const ParameterClient::Values after = chief->push(small_gradients(1));
  EXPECT_EQ(after.staleness, 3) << "of the oldest values";
  EXPECT_EQ(after.oldest_step, 4);
  EXPECT_EQ(after.newest_step, 4);
}

}  // namespace
}  // namespace brigade::ps
