#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/testing/error_code.h"
#include "brigade/concurrency/testing/waiting.h"
#include "brigade/ps/testing/client_checks.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using base::testing::message_of;
using concurrency::testing::kLong;
using concurrency::testing::result_of;
using concurrency::testing::start;
using concurrency::testing::still_waits;
using testing::abandon;
using testing::Client;
using testing::expect_all;
using testing::kAsyncJob;
using testing::kBoundedJob;
using testing::kChief;
using testing::kImpatient;
using testing::kWorker0;
using testing::kWorker1;
using testing::LocalServers;
using testing::make_chief;
using testing::make_client;
using testing::make_servers;
using testing::make_worker;
using testing::ServiceCall;
using testing::small_gradients;
using testing::small_model;
using testing::small_placement;

TEST(ParameterClientStart, AServerThatLostItsVariablesIsNamed) {
  LocalServers servers = make_servers(3);
  const Client chief = make_chief(servers, kAsyncJob);
  const Client worker = make_worker(servers, kWorker0, kAsyncJob);
  servers[1].restart_on(std::make_shared<io::MemoryFileSystem>());
  const Client restarted = make_client(servers, kChief);
  const std::array<std::function<void()>, 3> calls = {
      [&] { worker->pull(); }, [&] { worker->pull(); },
      [&] {
        restarted->create(small_model(), small_placement(3), *optim::Sgd{.learning_rate = 1}.rule(),
                          kAsyncJob);
      }};
  for (const auto& call : calls) {
    const std::string message = message_of(call, ErrorCode::kDataLoss);
    EXPECT_NE(message.find("parameter server 1"), std::string::npos) << message;
  }
  EXPECT_FALSE(servers[1].core().status().is_created);
  EXPECT_EQ(code_of([&] { make_worker(servers, kWorker1, kAsyncJob); }), ErrorCode::kDataLoss);
}

TEST(ParameterClientStart, AWorkerThatAsksWhileTheChiefInitializesIsNotMisled) {
  // Before the clients, which make calls until their end.
  std::promise<void> is_ready;
  std::shared_future<void> may_ask = is_ready.get_future().share();
  std::atomic<bool> is_first{true};
  std::promise<void> asks;
  LocalServers servers = make_servers(2);
  const Client chief = make_client(servers, kChief);
  const Client worker = make_client(servers, kWorker0);
  servers[0].before_calls([&](ServiceCall call) {
    if (call != ServiceCall::kRenew || !is_first.exchange(false)) return;
    asks.set_value();
    may_ask.wait_for(kLong);
  });
  auto waiting = start([&] { worker->wait_ready(small_placement(2), kAsyncJob); });
  ASSERT_EQ(asks.get_future().wait_for(kLong), std::future_status::ready);
  EXPECT_TRUE(still_waits(waiting)) << "server 1 has answered: it has no variables";
  chief->create(small_model(), small_placement(2), *optim::Sgd{.learning_rate = 1}.rule(),
                kAsyncJob);
  chief->set_ready();
  is_ready.set_value();
  result_of(waiting);
}

TEST(ParameterClientStart, AChiefThatWasRestartedFindsTheJobInProgress) {
  LocalServers servers = make_servers(2);
  const auto rule = optim::Sgd{.learning_rate = 1}.rule();
  const concurrency::CancelToken cancel;
  Client chief = make_client(servers, kChief, {.cancel = cancel});
  EXPECT_FALSE(chief->create(small_model(), small_placement(2), *rule, kAsyncJob));
  EXPECT_FALSE(chief->create(small_model(), small_placement(2), *rule, kAsyncJob)) << "not ready";
  chief->set_ready();
  chief->push(small_gradients(3));
  abandon(std::move(chief), cancel);

  const Client successor = make_client(servers, kChief);
  auto other = small_model();
  other[0].value = at::ones({2, 3}, at::kDouble);
  EXPECT_TRUE(successor->create(other, small_placement(2), *rule, kAsyncJob));
  EXPECT_EQ(successor->step(), 1);
  expect_all(successor->pull(), -3, 1);
}

TEST(ParameterClientStart, AChiefThatDiedWhileWorkersWereLetInIsContinued) {
  LocalServers servers = make_servers(2);
  const auto rule = optim::Sgd{.learning_rate = 1}.rule();
  const concurrency::CancelToken cancel;
  Client chief = make_client(servers, kChief, {.server_timeout = kImpatient, .cancel = cancel});
  chief->create(small_model(), small_placement(2), *rule, kAsyncJob);
  servers[1].lose_requests(ServiceCall::kSetReady, 1'000'000);
  EXPECT_EQ(code_of([&] { chief->set_ready(); }), ErrorCode::kUnavailable);
  servers[1].lose_requests(ServiceCall::kSetReady, 0);
  abandon(std::move(chief), cancel);

  const Client successor = make_client(servers, kChief);
  EXPECT_TRUE(successor->create(small_model(), small_placement(2), *rule, kAsyncJob));
  EXPECT_TRUE(servers[1].core().status().is_ready);
}

TEST(ParameterClientStart, CreateRefusesWhatDoesNotFitThePlacement) {
  LocalServers servers = make_servers(2);
  const Client chief = make_client(servers, kChief);
  const auto code = [&](const std::vector<Creation>& model,
                        const std::vector<PlacedVariable>& placement) {
    return code_of([&] { chief->create(model, placement, *optim::Sgd{}.rule(), kAsyncJob); });
  };
  auto twice = small_model();
  twice[1] = twice[0];
  auto one_less = small_model();
  one_less.pop_back();
  auto elsewhere = small_placement(2);
  elsewhere[1].server = 2;
  auto placed_twice = small_placement(2);
  placed_twice[1].name = placed_twice[0].name;
  auto frozen = small_placement(2);
  frozen[1].is_trainable = false;
  for (const auto& model : {twice, one_less})
    EXPECT_EQ(code(model, small_placement(2)), ErrorCode::kInvalidArgument);
  for (const auto& placement : {elsewhere, placed_twice, frozen})
    EXPECT_EQ(code(small_model(), placement), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { chief->pull(); }), ErrorCode::kFailedPrecondition);
  for (int server = 0; server < 2; ++server)
    EXPECT_FALSE(servers[server].core().status().is_created) << server;
}

TEST(ParameterClientStart, WorkersWaitForTheChiefAndRefuseAnotherJob) {
  LocalServers servers = make_servers(2);
  const Client worker = make_client(servers, kWorker0);
  auto waiting = start([&] { worker->wait_ready(small_placement(2), kAsyncJob); });
  const Client chief = make_client(servers, kChief);
  chief->create(small_model(), small_placement(2), *optim::Sgd{.learning_rate = 1}.rule(),
                kAsyncJob);
  EXPECT_TRUE(still_waits(waiting));
  chief->set_ready();
  result_of(waiting);
  EXPECT_EQ(code_of([&] { make_worker(servers, kWorker1, kBoundedJob); }),
            ErrorCode::kFailedPrecondition);
}

}  // namespace
}  // namespace brigade::ps
