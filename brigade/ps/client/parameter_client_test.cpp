#include "brigade/ps/client/parameter_client.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <vector>

#include "brigade/base/testing/error_code.h"
#include "brigade/concurrency/testing/waiting.h"
#include "brigade/ps/testing/client_checks.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using concurrency::testing::kLong;
using concurrency::testing::result_of;
using concurrency::testing::start;
using testing::Client;
using testing::expect_all;
using testing::kAsyncJob;
using testing::kChief;
using testing::kImpatient;
using testing::kSyncJob;
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

TEST(ParameterClient, AsyncPushesAreAppliedOnceWhateverIsLostAndRestarted) {
  constexpr int kSteps = 25;
  LocalServers servers = make_servers(2);
  const Client chief = make_chief(servers, kAsyncJob);
  const std::array workers = {make_worker(servers, kWorker0, kAsyncJob),
                              make_worker(servers, kWorker1, kAsyncJob)};
  workers[0]->pull();  // now it knows the variables: its next call is the push
  for (int server = 0; server < 2; ++server) servers[server].lose_replies(ServiceCall::kExchange);
  workers[0]->push(small_gradients(5));
  for (int server = 0; server < 2; ++server)
    EXPECT_EQ(servers[server].core().counters().duplicates, 1) << "a push that was sent again";

  std::atomic<int> running{2};
  const auto train = [&](std::size_t worker) {
    return start([&, worker] {
      for (int step = 0; step < kSteps; ++step)
        workers[worker]->push(small_gradients(static_cast<double>(worker + 1)));
      --running;
    });
  };
  auto first = train(0), second = train(1);
  std::mt19937 random(7);
  int restarts = 0;
  // A few faults, then peace: who is disturbed all the time never gets through.
  for (int fault = 0; fault < 12 && (running > 0 || restarts == 0); ++fault) {
    auto& server = servers[static_cast<int>(random() % 2)];
    switch (fault == 0 ? 3 : random() % 4) {
      case 0:
        server.lose_requests(ServiceCall::kExchange);
        break;
      case 1:
        server.lose_replies(ServiceCall::kExchange);
        break;
      case 2:
        server.lose_replies(ServiceCall::kJoin);
        break;
      default:
        server.restart();
        ++restarts;
    }
    first.wait_for(std::chrono::milliseconds(5));
  }
  result_of(first);
  result_of(second);
  EXPECT_GT(restarts, 0);
  expect_all(chief->pull(), -(5 + kSteps * 1.0 + kSteps * 2.0), 1 + 2 * kSteps);
  EXPECT_EQ(chief->step(), 1 + 2 * kSteps);
}

TEST(ParameterClient, GradientsAreRoundedToThePushDtype) {
  for (const JobConfig& job : {kAsyncJob, kSyncJob}) {
    LocalServers servers = make_servers(2);
    const Client chief = make_chief(servers, job, {.push_dtype = at::kBFloat16});
    const Client worker = make_worker(servers, kWorker0, job);
    chief->begin_step();
    worker->begin_step();
    chief->push(small_gradients(257));  // 256 in bfloat16
    worker->push(small_gradients(257));
    auto next = start([&] { worker->begin_step(); });
    chief->begin_step();
    result_of(next);
    const bool is_sync = job.mode == UpdateMode::kSync;
    expect_all(chief->pull(), -(256 + 257), is_sync ? 1 : 2);
  }
  LocalServers servers = make_servers(1);
  EXPECT_EQ(code_of([&] { make_client(servers, kChief, {.push_dtype = at::kHalf}); }),
            ErrorCode::kInvalidArgument);
}

TEST(ParameterClient, BadGradientsAreRefusedBeforeAnythingIsSent) {
  LocalServers servers = make_servers(2);
  const Client chief = make_chief(servers, kAsyncJob);
  const Client worker = make_worker(servers, kWorker0, kAsyncJob);
  for (ParameterClient* client : {chief.get(), worker.get()}) {
    const auto code = [&](std::size_t variable, const at::Tensor& gradient) {
      auto gradients = small_gradients(1);
      gradients[variable] = gradient;
      return code_of([&] { client->push(gradients); });
    };
    EXPECT_EQ(code(1, at::ones({4}, at::kDouble)), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code(1, at::ones({3}, at::kFloat)), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code(0, at::ones({2, 3}, at::kDouble).to_sparse()), ErrorCode::kInvalidArgument)
        << "sparse along both dimensions";
    EXPECT_EQ(code(2, at::zeros({}, at::kLong)), ErrorCode::kInvalidArgument) << "not trainable";
    EXPECT_EQ(code_of([&] { client->push(std::vector<at::Tensor>(4)); }),
              ErrorCode::kInvalidArgument);
  }
  for (int server = 0; server < 2; ++server)
    EXPECT_EQ(servers[server].core().counters().pushes, 0) << server;
  expect_all(worker->push(small_gradients(1)), -1, 1);
}

TEST(ParameterClient, APushThatFailedIsCompletedByTheNextCall) {
  LocalServers servers = make_servers(2);
  const Client chief = make_chief(servers, kAsyncJob, {.server_timeout = kImpatient});
  servers[1].stop();
  auto gradients = small_gradients(1);
  EXPECT_EQ(code_of([&] { chief->push(gradients); }), ErrorCode::kUnavailable);
  for (const at::Tensor& each : gradients)
    if (each.defined()) each.fill_(1000);  // as for the next step
  servers[1].start();
  expect_all(chief->push(small_gradients(2)), -3, 2);

  servers[1].lose_replies(ServiceCall::kExchange, 1'000'000);
  EXPECT_EQ(code_of([&] { chief->push(small_gradients(4)); }), ErrorCode::kUnavailable);
  servers[1].lose_replies(ServiceCall::kExchange, 0);
  expect_all(chief->pull(), -7, 3);
  expect_all(chief->push(small_gradients(8)), -15, 4);
}

TEST(ParameterClient, StatesAreAssignedAndReadOnAllServers) {
  LocalServers servers = make_servers(3);
  const Client chief = make_client(servers, kChief);
  chief->create(small_model(), small_placement(3),
                *optim::Sgd{.learning_rate = 1, .momentum = 0.5}.rule(), kAsyncJob);
  std::vector<NamedState> states = chief->states().variables;
  ASSERT_EQ(states.size(), small_model().size());
  for (std::size_t i = 0; i < states.size(); ++i) {
    EXPECT_EQ(states[i].name, small_model()[i].name);
    states[i].state.value.fill_(static_cast<double>(i));
    states[i].state.updates = 7;
  }
  chief->assign(states, 20);
  EXPECT_EQ(chief->step(), 20);
  const std::vector<NamedState> assigned = chief->states().variables;
  for (std::size_t i = 0; i < states.size(); ++i) {
    EXPECT_TRUE(at::equal(assigned[i].state.value, states[i].state.value)) << states[i].name;
    EXPECT_EQ(assigned[i].state.updates, 7);
    EXPECT_EQ(assigned[i].state.slots.size(), states[i].state.slots.size());
  }
  states[0].name = "nothing";
  EXPECT_EQ(code_of([&] { chief->assign(states, 21); }), ErrorCode::kNotFound);
  chief->set_ready();
  chief->set_learning_rate(0.25);
  const auto values = chief->push(small_gradients(4));
  EXPECT_EQ(values.step, 21);
  for (const std::size_t i : {0, 1, 3, 4})
    EXPECT_TRUE(at::equal(values.values[i].value,
                          at::full_like(states[i].state.value, static_cast<double>(i) - 1)));
}

}  // namespace
}  // namespace brigade::ps
