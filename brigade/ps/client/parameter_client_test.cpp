#include "brigade/ps/client/parameter_client.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <random>

#include "brigade/base/log.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/concurrency/testing/waiting.h"
#include "brigade/ps/testing/small_job.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using concurrency::testing::kLong;
using concurrency::testing::result_of;
using concurrency::testing::start;
using concurrency::testing::still_waits;
using testing::kChief;
using testing::kTasks;
using testing::kWorker0;
using testing::kWorker1;
using testing::LocalServers;
using testing::make_chief;
using testing::make_client;
using testing::make_worker;
using testing::ServiceCall;
using testing::small_gradients;
using testing::small_model;
using testing::small_placement;
using Client = std::unique_ptr<ParameterClient>;

constexpr JobConfig kAsyncJob = {};
constexpr JobConfig kBoundedJob = {.mode = UpdateMode::kBounded, .staleness = 1};
constexpr JobConfig kSyncJob = {.mode = UpdateMode::kSync,
                                .sync = {.replicas_to_aggregate = 2, .total_replicas = 2}};
constexpr std::chrono::milliseconds kImpatient{150};

LocalServers make_servers(int servers, std::chrono::milliseconds lease = std::chrono::seconds(60)) {
  return LocalServers({.servers = servers, .tasks = kTasks, .lease = lease});
}

/// Every trainable variable is `value`, and was updated `updates` times.
void expect_all(const ParameterClient::Values& values, double value, std::int64_t updates) {
  const auto model = small_model();
  ASSERT_EQ(values.values.size(), model.size());
  for (std::size_t i = 0; i < model.size(); ++i) {
    const double expected = model[i].is_trainable ? value : 0;
    EXPECT_TRUE(at::equal(values.values[i].value, at::full_like(model[i].value, expected)))
        << model[i].name << ": " << values.values[i].value;
    EXPECT_EQ(values.values[i].updates, model[i].is_trainable ? updates : 0) << model[i].name;
  }
}

/// The client's program dies: nobody tells the servers.
void abandon(Client client, const concurrency::CancelToken& cancel) {
  cancel.cancel();
  EXPECT_EQ(code_of([&] { client->pull(); }), ErrorCode::kCancelled);
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "did not throw";
}

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

TEST(ParameterClient, AServerThatDoesNotReturnIsNamedAndOneThatDoesIsUsedAgain) {
  LocalServers servers = make_servers(3);
  const Client chief = make_chief(servers, kAsyncJob, {.server_timeout = kImpatient});
  servers[1].stop();
  const auto begin = std::chrono::steady_clock::now();
  const auto pull = [&] { chief->pull(); };
  EXPECT_EQ(code_of(pull), ErrorCode::kUnavailable);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kImpatient / 2);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLong);
  const std::string message = message_of(pull);
  EXPECT_NE(message.find("parameter server 1 (local)"), std::string::npos) << message;
  EXPECT_NE(message.find("the server is down"), std::string::npos) << message;
  servers[1].start();
  expect_all(chief->pull(), 0, 0);
}

class ClientLog {
 public:
  ClientLog() {
    base::set_log_sink([this](base::LogLevel, std::string_view line) {
      const concurrency::MutexLock lock(mutex_);
      text_ += std::string(line) + "\n";
    });
  }
  ~ClientLog() { base::set_log_sink(nullptr); }
  int count(const std::string& part) const {
    const concurrency::MutexLock lock(mutex_);
    int found = 0;
    for (auto at = text_.find(part); at != std::string::npos; at = text_.find(part, at + 1))
      ++found;
    return found;
  }

 private:
  mutable concurrency::Mutex mutex_;
  std::string text_ BRIGADE_GUARDED_BY(mutex_);
};

TEST(ParameterClient, TheLogSaysOnceForWhomItWaitsAndThatItIsBack) {
  LocalServers servers = make_servers(2);
  const Client chief = make_chief(servers, kAsyncJob);
  const ClientLog log;
  servers[1].stop();
  auto pulled = start([&] { return chief->pull(); });
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (log.count("Waiting for the parameter server 1") == 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    pulled.wait_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(still_waits(pulled));
  servers[1].start();
  expect_all(result_of(pulled), 0, 0);
  EXPECT_EQ(log.count("Waiting for the parameter server 1"), 1);
  EXPECT_EQ(log.count("parameter server 1 (local) is back"), 1);
}

TEST(ParameterClient, AReplacedTaskIsRefusedForEver) {
  LocalServers servers = make_servers(2);
  const Client chief = make_chief(servers, kAsyncJob);
  const Client old = make_worker(servers, kWorker0, kAsyncJob);
  const Client successor = make_worker(servers, kWorker0, kAsyncJob);
  EXPECT_EQ(successor->incarnation(), old->incarnation() + 1);
  EXPECT_THROW(old->push(small_gradients(1)), ReplacedError);
  EXPECT_THROW(old->begin_step(), ReplacedError) << "which asks no server in this mode";
  EXPECT_THROW(old->pull(), ReplacedError);
  expect_all(successor->push(small_gradients(2)), -2, 1);
}

TEST(ParameterClient, ATaskThatWaitsLearnsThatItWasReplaced) {
  LocalServers servers = make_servers(2, std::chrono::milliseconds(40));
  const Client chief = make_chief(servers, kAsyncJob);
  const Client old = make_worker(servers, kWorker0, kAsyncJob);
  servers[1].stop();
  auto pushed = start([&] { EXPECT_THROW(old->push(small_gradients(1)), ReplacedError); });
  EXPECT_TRUE(still_waits(pushed));
  const Grant successor =
      servers[0].connect()->join({.task = kWorker0}, std::chrono::steady_clock::now() + kLong);
  EXPECT_EQ(successor.incarnation, old->incarnation() + 1);
  result_of(pushed);  // by the thread that renews leases, while server 1 is away
  servers[1].start();
}

TEST(ParameterClient, RenewsItsLeasesWhileItsProgramComputes) {
  LocalServers servers = make_servers(2, std::chrono::milliseconds(40));
  std::array<std::atomic<int>, 2> renewals = {}, joins = {};
  for (std::size_t server = 0; server < 2; ++server)
    servers[static_cast<int>(server)].before_calls([&, server](ServiceCall call) {
      if (call == ServiceCall::kRenew) ++renewals[server];
      if (call == ServiceCall::kJoin) ++joins[server];
    });
  const auto wait_for = [](const std::atomic<int>& count, int least) {
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    while (count < least && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return count >= least;
  };
  const Client worker = make_client(servers, kWorker0);
  EXPECT_TRUE(wait_for(renewals[0], 3));
  EXPECT_TRUE(wait_for(renewals[1], 3));
  const int joins_before = joins[1];
  servers[1].restart();
  EXPECT_TRUE(wait_for(joins[1], joins_before + 1)) << "the server does not know it any longer";
}

TEST(ParameterClient, AServerThatDoesNotAnswerCostsNoOtherLeases) {
  LocalServers servers = make_servers(2, std::chrono::milliseconds(400));
  std::promise<void> release;
  const auto released = release.get_future().share();
  std::atomic<int> renewals{0};
  const Client chief = make_client(servers, kChief);
  servers[0].before_calls([released](ServiceCall) { released.wait_for(2 * kLong); });
  servers[1].before_calls([&](ServiceCall call) {
    if (call == ServiceCall::kRenew && ++renewals == 5) release.set_value();
  });
  EXPECT_EQ(released.wait_for(kLong), std::future_status::ready) << "one held up the other";
  servers[1].before_calls({});
  servers[0].before_calls({});
}

TEST(ParameterClient, ACancelTokenEndsWaits) {
  LocalServers servers = make_servers(2);
  const concurrency::CancelToken cancel;
  const Client early = make_client(servers, kWorker0, {.cancel = cancel});
  auto waits_for_chief =
      start([&] { return code_of([&] { early->wait_ready(small_placement(2), kBoundedJob); }); });
  EXPECT_TRUE(still_waits(waits_for_chief));
  cancel.cancel();
  EXPECT_EQ(result_of(waits_for_chief), ErrorCode::kCancelled);

  const concurrency::CancelToken cancel_slow, cancel_fast;
  const Client chief = make_chief(servers, kBoundedJob);
  const Client slow = make_worker(servers, kWorker0, kBoundedJob, {.cancel = cancel_slow});
  const Client fast = make_worker(servers, kWorker1, kBoundedJob, {.cancel = cancel_fast});
  slow->begin_step();
  for (int step = 0; step < 2; ++step) {
    fast->begin_step();
    fast->push(small_gradients(1));
  }
  auto waits_for_slow = start([&] { return code_of([&] { fast->begin_step(); }); });
  EXPECT_TRUE(still_waits(waits_for_slow));
  cancel_fast.cancel();
  EXPECT_EQ(result_of(waits_for_slow), ErrorCode::kCancelled);

  servers[1].stop();
  auto waits_for_server = start([&] { return code_of([&] { slow->pull(); }); });
  EXPECT_TRUE(still_waits(waits_for_server));
  cancel_slow.cancel();
  EXPECT_EQ(result_of(waits_for_server), ErrorCode::kCancelled);
  servers[1].start();
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

TEST(ParameterClient, AServerThatLostItsVariablesIsNamed) {
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
    EXPECT_EQ(code_of(call), ErrorCode::kDataLoss);
    EXPECT_NE(message_of(call).find("parameter server 1"), std::string::npos) << message_of(call);
  }
  EXPECT_FALSE(servers[1].core().status().is_created);
  EXPECT_EQ(code_of([&] { make_worker(servers, kWorker1, kAsyncJob); }), ErrorCode::kDataLoss);
}

TEST(ParameterClient, AWorkerThatAsksWhileTheChiefInitializesIsNotMisled) {
  LocalServers servers = make_servers(2);
  const Client chief = make_client(servers, kChief);
  const Client worker = make_client(servers, kWorker0);
  std::promise<void> is_ready;
  std::shared_future<void> may_ask = is_ready.get_future().share();
  std::atomic<bool> is_first{true};
  std::promise<void> asks;
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

TEST(ParameterClient, AChiefThatWasRestartedFindsTheJobInProgress) {
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

TEST(ParameterClient, AChiefThatDiedWhileWorkersWereLetInIsContinued) {
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

TEST(ParameterClient, CreateRefusesWhatDoesNotFitThePlacement) {
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

TEST(ParameterClient, WorkersWaitForTheChiefAndRefuseAnotherJob) {
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

TEST(ParameterClient, APushIsAsStaleAsTheUpdatesOfOthersSinceItsValuesAreMany) {
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

TEST(ParameterClient, ASynchronousPushHasNoStaleness) {
  LocalServers servers = make_servers(2);
  const Client chief = make_chief(servers, kSyncJob);
  chief->begin_step();
  EXPECT_FALSE(chief->push(small_gradients(1)).staleness.has_value());
}

TEST(ParameterClient, AFailedPushOfItsOwnDoesNotMakeTheNextStale) {
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

TEST(ParameterClient, APullSaysBetweenWhichStepsItsValuesAre) {
  LocalServers servers = make_servers(2);
  const Client chief = make_chief(servers, kAsyncJob);
  const Client worker = make_worker(servers, kWorker1, kAsyncJob);
  worker->pull();
  std::promise<void> first_was_read;
  std::atomic<int> of_first{0}, of_second{0};
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

/// A backup worker does not wait for the chief, which reads the servers one after another here.
TEST(ParameterClient, StatesOfASynchronousJobAreThoseOfOneStepThoughADecisionComesBetween) {
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

TEST(ParameterClient, NoWorkerIsFurtherAheadThanTheBound) {
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

TEST(ParameterClient, AWorkerPushesOnlyStepsThatItBegan) {
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

TEST(ParameterClient, SynchronousTrainingHasTheSameBitsWithAnyNumberOfServers) {
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

TEST(ParameterClient, GradientsOfAWorkerThatDiedBeforeItContributedAreReplaced) {
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

TEST(ParameterClient, ACoordinatorThatWasRestartedHearsOfAllContributionsAgain) {
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

TEST(ParameterClient, LeavingEndsTheServersAndAFailureDoesNot) {
  LocalServers servers = make_servers(2);
  {
    const Client chief = make_chief(servers, kAsyncJob);
    const Client worker = make_worker(servers, kWorker0, kAsyncJob);
    for (int server = 0; server < 2; ++server) servers[server].lose_replies(ServiceCall::kLeave);
  }
  for (int server = 0; server < 2; ++server)
    EXPECT_TRUE(servers[server].core().has_chief_finished()) << server;

  LocalServers others = make_servers(2);
  try {
    const Client chief = make_chief(others, kAsyncJob);
    throw std::runtime_error("the program fails");
  } catch (const std::runtime_error&) {
  }
  const concurrency::CancelToken cancel;
  abandon(make_worker(others, kWorker0, kAsyncJob, {.cancel = cancel}), cancel);
  for (int server = 0; server < 2; ++server)
    EXPECT_FALSE(others[server].core().has_chief_finished()) << server;
}

TEST(ParameterClient, AFailureThatIsOverDoesNotKeepServersFromEnding) {
  LocalServers servers = make_servers(2);
  {
    const Client chief = make_chief(servers, kAsyncJob, {.server_timeout = kImpatient});
    servers[1].stop();
    EXPECT_EQ(code_of([&] { chief->push(small_gradients(1)); }), ErrorCode::kUnavailable);
    servers[1].start();
    EXPECT_EQ(chief->states().variables.size(), small_model().size());
  }
  for (int server = 0; server < 2; ++server)
    EXPECT_TRUE(servers[server].core().has_chief_finished()) << server;
}

TEST(ParameterClient, AChiefTriesForLongToTellAServerThatItHasFinished) {
  LocalServers servers = make_servers(2);
  const auto begin = std::chrono::steady_clock::now();
  servers[1].before_calls([begin](ServiceCall call) {
    if (call == ServiceCall::kLeave &&
        std::chrono::steady_clock::now() < begin + std::chrono::milliseconds(2500))
      throw Error(ErrorCode::kUnavailable, "the server is being restarted");
  });
  make_chief(servers, kAsyncJob).reset();
  EXPECT_TRUE(servers[1].core().has_chief_finished());
}

}  // namespace
}  // namespace brigade::ps
