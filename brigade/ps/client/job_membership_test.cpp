#include "brigade/ps/client/job_membership.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "brigade/base/log.h"
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

TEST(JobMembership, AServerThatDoesNotReturnIsNamedAndOneThatDoesIsUsedAgain) {
  LocalServers servers = make_servers(3);
  const Client chief = make_chief(servers, kAsyncJob, {.server_timeout = kImpatient});
  servers[1].stop();
  const auto begin = std::chrono::steady_clock::now();
  const auto pull = [&] { chief->pull(); };
  EXPECT_EQ(code_of(pull), ErrorCode::kUnavailable);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kImpatient / 2);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLong);
  const std::string message = message_of(pull, ErrorCode::kUnavailable);
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

TEST(JobMembership, TheLogSaysOnceForWhomItWaitsAndThatItIsBack) {
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

TEST(JobMembership, AReplacedTaskIsRefusedForEver) {
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

TEST(JobMembership, ATaskThatWaitsLearnsThatItWasReplaced) {
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

TEST(JobMembership, RenewsItsLeasesWhileItsProgramComputes) {
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

TEST(JobMembership, AServerThatDoesNotAnswerCostsNoOtherLeases) {
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

TEST(JobMembership, ACancelTokenEndsWaits) {
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

TEST(JobMembership, LeavingEndsTheServersAndAFailureDoesNot) {
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

TEST(JobMembership, AFailureThatIsOverDoesNotKeepServersFromEnding) {
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

TEST(JobMembership, AChiefTriesForLongToReportToAServerThatItHasFinished) {
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
