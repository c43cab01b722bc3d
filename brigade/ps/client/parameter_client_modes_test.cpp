#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <random>
#include <thread>
#include <utility>
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
using concurrency::testing::still_waits;
using testing::abandon;
using testing::Client;
using testing::expect_all;
using testing::kBoundedJob;
using testing::kSyncJob;
using testing::kWorker0;
using testing::kWorker1;
using testing::LocalServers;
using testing::make_chief;
using testing::make_servers;
using testing::make_worker;
using testing::ServiceCall;
using testing::small_gradients;
using testing::small_model;

/// A backup worker does not wait for the chief, which reads the servers one after another here.
TEST(ParameterClientModes, StatesOfASynchronousJobAreThoseOfOneStepThoughADecisionComesBetween) {
  constexpr JobConfig kBackupJob = {.mode = UpdateMode::kSync,
                                    .sync = {.replicas_to_aggregate = 1, .total_replicas = 2}};
  for (const int first : {0, 1}) {
    LocalServers servers = make_servers(2);
    const Client chief = make_chief(servers, kBackupJob);
    const Client worker = make_worker(servers, kWorker1, kBackupJob);
    std::promise<void> first_was_read;
    std::atomic<int> readings_of_first{0}, readings_of_second{0};
    servers[first].after_calls([&](ServiceCall call) {
      if (call == ServiceCall::kStates && ++readings_of_first == 1) first_was_read.set_value();
    });
    servers[1 - first].before_calls([&](ServiceCall call) {
      if (call != ServiceCall::kStates || ++readings_of_second > 1) return;
      ASSERT_EQ(first_was_read.get_future().wait_for(kLong), std::future_status::ready);
      worker->begin_step();
      worker->push(small_gradients(3));
      worker->begin_step();
      // With ps:1 read first, only the chief can tell it of the decision.
      if (first == 0) worker->pull();
    });
    const ParameterClient::States states = chief->states();
    EXPECT_EQ(readings_of_first, 2);
    EXPECT_EQ(states.step, 1);
    EXPECT_EQ(chief->step(), 1);
    ASSERT_EQ(states.variables.size(), small_model().size());
    for (std::size_t i = 0; i < states.variables.size(); ++i) {
      const auto& [name, state] = states.variables[i];
      const bool is_trainable = small_model()[i].is_trainable;
      EXPECT_TRUE(at::equal(state.value, at::full_like(state.value, is_trainable ? -3 : 0)))
          << name << " with server " << first << " read first: " << state.value;
      EXPECT_EQ(state.updates, is_trainable ? 1 : 0) << name;
    }
    for (int server = 0; server < 2; ++server) EXPECT_EQ(servers[server].core().status().step, 1);
  }
}

TEST(ParameterClientModes, NoWorkerIsFurtherAheadThanTheBound) {
  constexpr int kSteps = 30;
  LocalServers servers = make_servers(2);
  const Client chief = make_chief(servers, kBoundedJob);
  const std::array workers = {make_worker(servers, kWorker0, kBoundedJob),
                              make_worker(servers, kWorker1, kBoundedJob)};
  for (const Client& worker : workers) worker->begin_step();  // both take part
  std::array<std::atomic<std::int64_t>, 2> finished = {};
  std::atomic<std::int64_t> furthest = 0;
  const auto train = [&](std::size_t worker) {
    return start([&, worker] {
      std::mt19937 random(static_cast<unsigned>(worker));
      for (int step = 0; step < kSteps; ++step) {
        workers[worker]->begin_step();
        const std::int64_t ahead = step - finished[1 - worker];
        for (std::int64_t most = furthest; ahead > most;)
          if (furthest.compare_exchange_weak(most, ahead)) break;
        workers[worker]->push(small_gradients(1));
        finished[worker] = step + 1;
        if (random() % 4 == 0) std::this_thread::yield();
      }
    });
  };
  // One alone gets as far as the bound, and not further.
  auto fast = train(0);
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (finished[0] < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(still_waits(fast));
  EXPECT_EQ(finished[0], 2);
  servers[0].lose_replies(ServiceCall::kBeginStep, 3);
  auto slow = train(1);
  result_of(fast);
  result_of(slow);
  EXPECT_EQ(furthest, kBoundedJob.staleness);
  expect_all(chief->pull(), -2.0 * kSteps, 2 * kSteps);
}

TEST(ParameterClientModes, AWorkerPushesOnlyStepsThatItBegan) {
  LocalServers servers = make_servers(1);
  const Client chief = make_chief(servers, kBoundedJob);
  EXPECT_EQ(code_of([&] { chief->push(small_gradients(1)); }), ErrorCode::kFailedPrecondition);
  chief->begin_step();
  chief->begin_step();  // has permission
  expect_all(chief->push(small_gradients(1)), -1, 1);
  EXPECT_EQ(code_of([&] { chief->push(small_gradients(1)); }), ErrorCode::kFailedPrecondition);
}

/// Gradients that depend on the values, so that an error in one step changes all later ones.
std::vector<at::Tensor> gradients_at(const ParameterClient::Values& values, int worker, int step) {
  std::vector<at::Tensor> gradients = small_gradients(0);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined())
      gradients[i] = values.values[i].value * (0.1 * worker) +
                     (0.3 + static_cast<double>(i)) / (step + worker + 2.0);
  return gradients;
}

/// The values after synchronous training with two workers, with faults.
ParameterClient::Values train_synchronously(int servers_count, int steps) {
  LocalServers servers = make_servers(servers_count);
  const Client chief = make_chief(servers, kSyncJob);
  const std::array workers = {make_worker(servers, kWorker0, kSyncJob),
                              make_worker(servers, kWorker1, kSyncJob)};
  // By one thread, since only one at a time may restart servers.
  const auto fail = [&](int step) {
    auto& server = servers[step % servers_count];
    server.lose_requests(ServiceCall::kExchange);
    server.lose_replies(ServiceCall::kExchange);
    servers[0].lose_replies(ServiceCall::kBeginStep);
    if (step % 3 == 1) server.restart();
  };
  const auto train = [&](int worker) {
    return start([&, worker] {
      ParameterClient& client = *workers[static_cast<std::size_t>(worker)];
      for (int step = 0; step < steps; ++step) {
        client.begin_step();
        const ParameterClient::Values values = client.pull();
        EXPECT_EQ(values.step, step);
        if (worker == 0) fail(step);
        EXPECT_TRUE(client.push(gradients_at(values, worker, step)).values.empty());
      }
      client.begin_step();
      return client.pull();
    });
  };
  auto first = train(0), second = train(1);
  const ParameterClient::Values values = result_of(first);
  const ParameterClient::Values others = result_of(second);
  EXPECT_EQ(values.step, steps);
  for (std::size_t i = 0; i < values.values.size(); ++i)
    EXPECT_TRUE(at::equal(values.values[i].value, others.values[i].value));
  return values;
}

TEST(ParameterClientModes, SynchronousTrainingHasTheSameBitsWithAnyNumberOfServers) {
  constexpr int kSteps = 12;
  ParameterClient::Values expected;
  for (const Creation& each : small_model()) expected.values.push_back({.value = each.value});
  for (int step = 0; step < kSteps; ++step) {
    const auto first = gradients_at(expected, 0, step), second = gradients_at(expected, 1, step);
    for (std::size_t i = 0; i < first.size(); ++i)
      if (first[i].defined())
        expected.values[i].value = expected.values[i].value - (first[i] + second[i]);
  }
  const ParameterClient::Values one = train_synchronously(1, kSteps);
  for (std::size_t i = 0; i < one.values.size(); ++i)
    EXPECT_TRUE(at::allclose(one.values[i].value, expected.values[i].value)) << i;
  for (const int servers : {2, 3}) {
    const ParameterClient::Values several = train_synchronously(servers, kSteps);
    for (std::size_t i = 0; i < one.values.size(); ++i)
      EXPECT_TRUE(at::equal(several.values[i].value, one.values[i].value))
          << servers << " servers, variable " << i;
  }
}

TEST(ParameterClientModes, GradientsOfAWorkerThatDiedBeforeItContributedAreReplaced) {
  LocalServers servers = make_servers(2);
  const Client chief = make_chief(servers, kSyncJob);
  const Client other = make_worker(servers, kWorker0, kSyncJob);
  const concurrency::CancelToken cancel;
  Client dies = make_worker(servers, kWorker1, kSyncJob, {.cancel = cancel});
  dies->begin_step();
  dies->push(small_gradients(100));
  abandon(std::move(dies), cancel);

  const Client successor = make_worker(servers, kWorker1, kSyncJob);
  std::vector<std::future<ParameterClient::Values>> results;
  for (ParameterClient* client : {other.get(), successor.get()})
    results.push_back(start([client] {
      client->begin_step();
      client->push(small_gradients(1));
      client->begin_step();
      return client->pull();
    }));
  for (auto& result : results) expect_all(result_of(result), -2, 1);
}

TEST(ParameterClientModes, ACoordinatorThatWasRestartedHearsOfAllContributionsAgain) {
  // One worker computes two gradients for each step.
  constexpr JobConfig kJob = {.mode = UpdateMode::kSync,
                              .sync = {.replicas_to_aggregate = 2, .total_replicas = 1}};
  LocalServers servers = make_servers(2);
  const Client chief = make_chief(servers, kJob);
  chief->begin_step();
  chief->push(small_gradients(1));
  chief->begin_step();  // contributes the first, and is to compute the second
  servers[0].restart();
  chief->push(small_gradients(2));
  chief->begin_step();
  expect_all(chief->pull(), -3, 1);
}

}  // namespace
}  // namespace brigade::ps
