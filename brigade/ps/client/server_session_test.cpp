#include "brigade/ps/client/server_session.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "brigade/base/testing/error_code.h"
#include "brigade/concurrency/testing/waiting.h"
#include "brigade/ps/testing/small_job.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using coordination::PushVerdict;
using testing::LocalServers;
using testing::ServiceCall;

/// The chief's session with one server that has the small model.
class ServerSessionTest : public ::testing::Test {
 protected:
  ServerSessionTest() {
    EXPECT_EQ(session_.join(0), 1);
    session_.call([](ParameterService& service, const std::string& token, auto deadline) {
      return service.create(token,
                            {.variables = testing::small_model(),
                             .rule = optim::Sgd{.learning_rate = 1}.rule()->config(),
                             .job = {}},
                            deadline);
    });
  }

  ExchangeReply push(const std::string& name, const at::Tensor& gradient) {
    return session_.exchange(
        {.push = Push{.gradients = {{.name = name, .tensor = gradient}}}, .pull = {"scale"}});
  }
  static at::Tensor scale(double value) { return at::full({}, value, at::kDouble); }
  testing::LocalServer& server() { return servers_[0]; }

  LocalServers servers_{
      {.servers = 1, .tasks = testing::kTasks, .lease = std::chrono::seconds(60)}};
  concurrency::CancelToken cancel_;
  ServerSession session_{servers_[0].connect(),
                         {.task = testing::kChief,
                          .server = 3,
                          .server_timeout = std::chrono::milliseconds(150),
                          .cancel = cancel_}};
};

TEST_F(ServerSessionTest, CallsAgainWhatWasNotAnswered) {
  server().lose_requests(ServiceCall::kExchange, 2);
  server().lose_replies(ServiceCall::kExchange, 2);
  const ExchangeReply reply = push("scale", scale(1));
  EXPECT_EQ(reply.verdict, PushVerdict::kDuplicate);
  EXPECT_TRUE(at::equal(reply.values.at(0).value, scale(-1)));
  EXPECT_EQ(push("scale", scale(1)).verdict, PushVerdict::kApply) << "the next number";
}

TEST_F(ServerSessionTest, JoinsAgainWithItsIncarnation) {
  push("scale", scale(1));
  server().restart();
  server().lose_replies(ServiceCall::kJoin, 2);
  EXPECT_EQ(push("scale", scale(1)).verdict, PushVerdict::kApply);
  server().restart();
  EXPECT_TRUE(session_.renew(std::chrono::steady_clock::now() + std::chrono::seconds(30)));
  EXPECT_TRUE(at::equal(push("scale", scale(1)).values.at(0).value, scale(-3)));
  EXPECT_EQ(server()
                .connect()
                ->join({.task = testing::kChief},
                       std::chrono::steady_clock::now() + std::chrono::seconds(30))
                .incarnation,
            2);
  EXPECT_THROW(push("scale", scale(1)), ReplacedError);
}

TEST_F(ServerSessionTest, ARefusedPushUsesUpNoNumber) {
  EXPECT_EQ(code_of([&] { push("count", at::zeros({}, at::kLong)); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { push("nothing", scale(1)); }), ErrorCode::kNotFound);
  EXPECT_TRUE(at::equal(push("scale", scale(1)).values.at(0).value, scale(-1)));
}

TEST_F(ServerSessionTest, APushWhosePullWasRefusedWasAppliedAndIsNotConfusedWithTheNext) {
  EXPECT_EQ(code_of([&] {
              session_.exchange({.push = Push{.gradients = {{.name = "scale", .tensor = scale(1)}}},
                                 .pull = {"nothing"}});
            }),
            ErrorCode::kNotFound);
  const ExchangeReply reply = push("scale", scale(2));
  EXPECT_EQ(reply.verdict, PushVerdict::kApply);
  EXPECT_TRUE(at::equal(reply.values.at(0).value, scale(-3)));
}

TEST_F(ServerSessionTest, AnErrorOfTheConnectionDoesNotFreeTheNumberOfAPush) {
  server().lose_replies(ServiceCall::kExchange);
  int calls = 0;
  server().before_calls([&](ServiceCall call) {
    if (call == ServiceCall::kExchange && ++calls == 2)
      throw Error(ErrorCode::kPermissionDenied, "another key");
  });
  EXPECT_EQ(code_of([&] { push("scale", scale(1)); }), ErrorCode::kPermissionDenied);
  EXPECT_TRUE(at::equal(push("scale", scale(2)).values.at(0).value, scale(-3)));
}

TEST_F(ServerSessionTest, ABusyServerIsAskedAgain) {
  int calls = 0;
  server().before_calls([&](ServiceCall) {
    if (++calls <= 3) throw ServerBusyError("too many calls in progress");
  });
  EXPECT_EQ(push("scale", scale(1)).verdict, PushVerdict::kApply);
  EXPECT_EQ(calls, 4);
}

/// Records how much time its calls have.
class SlowService final : public ParameterService {
 public:
  explicit SlowService(std::vector<std::chrono::milliseconds>& times) : times_(times) {}
  Grant join(const JoinRequest&, Time) override {
    return {.token = "t", .incarnation = 1, .lease = std::chrono::seconds(60)};
  }
  /// Has no answer in time.
  ServerStatus renew(const std::string&, Time deadline) override {
    note(deadline);
    std::this_thread::sleep_until(deadline);
    throw Error(ErrorCode::kDeadlineExceeded, "no answer");
  }
  void leave(const std::string&, Time) override {}
  ServerStatus create(const std::string&, const CreateRequest&, Time) override { return {}; }
  void assign(const std::string&, const std::vector<NamedState>&, std::int64_t, Time) override {}
  void set_ready(const std::string&, Time) override {}
  void set_learning_rate(const std::string&, double, Time) override {}
  ExchangeReply exchange(const std::string&, const ExchangeRequest& request,
                         Time deadline) override {
    note(deadline);
    ExchangeReply reply;
    if (request.push) reply.verdict = PushVerdict::kApply;
    return reply;
  }
  std::unique_ptr<OpenExchange> begin_exchange(const std::string&, const ExchangeRequest&,
                                               Time deadline) override {
    note(deadline);
    return nullptr;
  }
  StoredStates states(const std::string&, const std::vector<std::string>&, Time) override {
    return {};
  }
  BeginStepReply begin_step(const std::string&, const BeginStepRequest&, Time) override {
    return {};
  }

 private:
  void note(Time deadline) {
    times_.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now()));
  }

  std::vector<std::chrono::milliseconds>& times_;
};

TEST(ServerSession, AttemptsHaveTimeForTheirBytes) {
  std::vector<std::chrono::milliseconds> times;
  ServerSession session(std::make_unique<SlowService>(times),
                        {.task = testing::kChief,
                         .server_timeout = std::chrono::seconds(2),
                         .attempt_timeout = std::chrono::seconds(1)});
  const at::Tensor gradient = at::zeros({10'000'000}, at::kDouble);
  session.exchange({.push = Push{.gradients = {{.name = "w", .tensor = gradient}}}, .pull = {}},
                   120'000'000);
  ASSERT_EQ(times.size(), 1u);
  EXPECT_GT(times[0], std::chrono::seconds(150));
  EXPECT_LE(times[0], std::chrono::seconds(202));
}

TEST(ServerSession, WhatIsSentEarlyHasTheTimeOfAnAttemptButNoMoreThanAServerMayBeAway) {
  for (const int server_timeout : {1, 5}) {
    std::vector<std::chrono::milliseconds> times;
    ServerSession session(std::make_unique<SlowService>(times),
                          {.task = testing::kChief,
                           .server_timeout = std::chrono::seconds(server_timeout),
                           .attempt_timeout = std::chrono::seconds(3)});
    session.join(0);
    const at::Tensor gradient = at::zeros({1'000'000}, at::kDouble);
    session.begin_early(
        {.push = Push{.gradients = {{.name = "w", .tensor = gradient}}}, .pull = {}}, 2'000'000);
    ASSERT_EQ(times.size(), 1u);
    const std::chrono::seconds most(std::min(server_timeout, 3) + 10);
    EXPECT_LE(times[0], most);
    EXPECT_GT(times[0], most - std::chrono::seconds(2));
  }
}

TEST(ServerSession, AnAttemptThatTookTooLongIsMadeAgainWithMoreTime) {
  std::vector<std::chrono::milliseconds> times;
  ServerSession session(std::make_unique<SlowService>(times),
                        {.task = testing::kChief,
                         .server_timeout = std::chrono::milliseconds(2000),
                         .attempt_timeout = std::chrono::milliseconds(100)});
  EXPECT_EQ(code_of([&] {
              session.call([](ParameterService& service, const std::string& token, auto deadline) {
                return service.renew(token, deadline);
              });
            }),
            ErrorCode::kUnavailable);
  ASSERT_GE(times.size(), 3u);
  EXPECT_LE(times[0], std::chrono::milliseconds(100));
  EXPECT_GT(times[2], std::chrono::milliseconds(200));
}

TEST_F(ServerSessionTest, OtherErrorsAreNotRetried) {
  int calls = 0;
  server().before_calls([&](ServiceCall) {
    ++calls;
    throw Error(ErrorCode::kResourceExhausted, "no memory");
  });
  EXPECT_EQ(code_of([&] { push("scale", scale(1)); }), ErrorCode::kResourceExhausted);
  EXPECT_EQ(calls, 1);
  server().before_calls({});
  EXPECT_TRUE(at::equal(push("scale", scale(2)).values.at(0).value, scale(-3)))
      << "it was not known whether the first was applied, so it was sent again";
}

TEST_F(ServerSessionTest, AServerWithoutEarlierPushesHasLostUpdates) {
  push("scale", scale(1));
  auto other = server().connect();
  server().restart_on(std::make_shared<io::MemoryFileSystem>());
  const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const std::string token = other->join({.task = testing::kChief, .incarnation = 1}, soon).token;
  other->create(token,
                {.variables = testing::small_model(),
                 .rule = optim::Sgd{.learning_rate = 1}.rule()->config(),
                 .job = {}},
                soon);
  EXPECT_EQ(code_of([&] { push("scale", scale(1)); }), ErrorCode::kDataLoss);
}

TEST_F(ServerSessionTest, AServerThatReturnsEmptyHasLostItsVariables) {
  session_.expect_variables();
  server().restart_on(std::make_shared<io::MemoryFileSystem>());
  for (int attempt = 0; attempt < 2; ++attempt)
    EXPECT_EQ(code_of([&] { push("scale", scale(1)); }), ErrorCode::kDataLoss);
}

TEST_F(ServerSessionTest, GivesUpAfterTheTimeoutAndNamesTheServer) {
  server().stop();
  try {
    push("scale", scale(1));
    ADD_FAILURE() << "the server is down";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    const std::string message = error.what();
    EXPECT_NE(message.find("parameter server 3 (local)"), std::string::npos) << message;
    EXPECT_NE(message.find("/job:chief/task:0"), std::string::npos) << message;
  }
  EXPECT_FALSE(session_.renew(std::chrono::steady_clock::now() + std::chrono::seconds(1)));
}

TEST_F(ServerSessionTest, LeavesAlthoughTheReplyIsLost) {
  server().lose_requests(ServiceCall::kLeave);
  server().lose_replies(ServiceCall::kLeave);
  session_.leave(std::chrono::steady_clock::now() + std::chrono::seconds(30));
  EXPECT_TRUE(server().core().has_chief_finished());
}

TEST_F(ServerSessionTest, ACancelledCallEnds) {
  server().stop();
  cancel_.cancel();
  EXPECT_EQ(code_of([&] { push("scale", scale(1)); }), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace brigade::ps
