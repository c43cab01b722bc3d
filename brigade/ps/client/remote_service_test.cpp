#include "brigade/ps/client/remote_service.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/ps/service_messages.h"
#include "brigade/rpc/message_service.h"

namespace brigade::ps {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ServiceTime = ParameterService::Time;

const std::string kToken("a token\0 of bytes\xff", 18);

ServiceTime in_time(milliseconds time = seconds(30)) {
  return std::chrono::steady_clock::now() + time;
}

/// Records its calls, and answers with what the test expects or throws what it says.
class FakeService final : public ParameterService {
 public:
  Grant join(const JoinRequest& request, Time) override {
    act("join");
    EXPECT_EQ(request.task, (cluster::Task{"worker", 1}));
    EXPECT_EQ(request.incarnation, 2);
    return {.token = kToken, .incarnation = 3, .lease = milliseconds(800)};
  }
  ServerStatus renew(const std::string& token, Time) override {
    check(token);
    act("renew");
    return {.is_created = true, .is_ready = true, .step = 5, .learning_rate = 0.5, .job = {}};
  }
  void leave(const std::string& token, Time) override {
    check(token);
    act("leave");
  }
  ServerStatus create(const std::string& token, const CreateRequest& request, Time) override {
    check(token);
    act("create");
    EXPECT_EQ(request.variables.size(), 1u);
    return {};
  }
  void assign(const std::string& token, const std::vector<NamedState>& variables, std::int64_t step,
              Time) override {
    check(token);
    act("assign");
    EXPECT_EQ(variables.size(), 1u);
    EXPECT_EQ(step, 12);
  }
  void set_ready(const std::string& token, Time) override {
    check(token);
    act("set_ready");
  }
  void set_learning_rate(const std::string& token, double rate, Time) override {
    check(token);
    act("set_learning_rate");
    EXPECT_EQ(rate, 0.125);
  }
  /// Returns the gradients.
  ExchangeReply exchange(const std::string& token, const ExchangeRequest& request, Time) override {
    check(token);
    act("exchange");
    ExchangeReply reply{.step = 7};
    if (request.push) {
      reply.verdict = coordination::PushVerdict::kApply;
      for (const auto& each : request.push->gradients) reply.values.push_back({each.tensor, 1});
    }
    return reply;
  }
  StoredStates states(const std::string& token, const std::vector<std::string>& names,
                      Time) override {
    check(token);
    act("states");
    StoredStates states{.step = 9};
    for (const std::string& name : names)
      states.variables.push_back({name, {at::ones({2}), {}, 4}});
    return states;
  }
  BeginStepReply begin_step(const std::string& token, const BeginStepRequest& request,
                            Time deadline) override {
    check(token);
    act("begin_step");
    const Time end = std::min(deadline, std::chrono::steady_clock::now() + request.wait);
    const concurrency::MutexLock lock(mutex_);
    while (!may_begin_ && std::chrono::steady_clock::now() < end) changed_.wait_until(mutex_, end);
    return {.may_begin = may_begin_, .waiting_for = {"/job:worker/task:0"}};
  }

  void allow() {
    const concurrency::MutexLock lock(mutex_);
    may_begin_ = true;
    changed_.notify_all();
  }
  void set_failure(std::function<void()> failure) {
    const concurrency::MutexLock lock(mutex_);
    failure_ = std::move(failure);
  }
  /// Of this call alone.
  void set_failure_of(const std::string& name, std::function<void()> failure) {
    const concurrency::MutexLock lock(mutex_);
    failures_[name] = std::move(failure);
  }
  int count(const std::string& name) {
    const concurrency::MutexLock lock(mutex_);
    return counts_[name];
  }

 private:
  static void check(const std::string& token) {
    if (token != kToken) throw NotMemberError("The server does not know this token.");
  }
  void act(const std::string& name) {
    std::function<void()> failure;
    {
      const concurrency::MutexLock lock(mutex_);
      ++counts_[name];
      const auto found = failures_.find(name);
      failure = found == failures_.end() ? failure_ : found->second;
    }
    if (failure) failure();
  }

  concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  bool may_begin_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::function<void()> failure_ BRIGADE_GUARDED_BY(mutex_);
  std::map<std::string, std::function<void()>> failures_ BRIGADE_GUARDED_BY(mutex_);
  std::map<std::string, int> counts_ BRIGADE_GUARDED_BY(mutex_);
};

ExchangeRequest push_of(const at::Tensor& gradient) {
  return {.push = Push{.number = 1, .gradients = {{"weights", gradient}}}};
}

TEST(RemoteService, EveryCallReachesTheServiceAndReturnsItsResult) {
  FakeService service;
  const auto listener = listen(service, {});
  const auto remote = connect(listener->address(), std::nullopt);
  EXPECT_EQ(remote->name(), listener->address());
  const Grant grant = remote->join({{"worker", 1}, 2}, in_time());
  EXPECT_EQ(grant.token, kToken);
  EXPECT_EQ(grant.incarnation, 3);
  EXPECT_EQ(grant.lease, milliseconds(800));
  EXPECT_EQ(remote->renew(kToken, in_time()).step, 5);
  EXPECT_FALSE(remote->create(kToken, {.variables = {{"a", at::ones({3})}}, .rule = {}}, in_time())
                   .is_created);
  remote->assign(kToken, {{"a", {at::ones({3}), {}, 0}}}, 12, in_time());
  remote->set_ready(kToken, in_time());
  remote->set_learning_rate(kToken, 0.125, in_time());
  EXPECT_EQ(remote->exchange(kToken, {}, in_time()).step, 7);
  const StoredStates states = remote->states(kToken, {"a", "b"}, in_time());
  EXPECT_EQ(states.step, 9);
  ASSERT_EQ(states.variables.size(), 2u);
  EXPECT_EQ(states.variables[1].name, "b");
  service.allow();
  EXPECT_TRUE(remote->begin_step(kToken, {.wait = seconds(5)}, in_time()).may_begin);
  remote->leave(kToken, in_time());
  for (const char* name : {"join", "create", "assign", "set_ready", "set_learning_rate", "exchange",
                           "states", "begin_step", "leave"}) {
    EXPECT_EQ(service.count(name), 1) << name;
  }
}

TEST(RemoteService, LargeTensorsComeBackWithTheSameBits) {
  for (const bool shared_memory : {true, false}) {
    FakeService service;
    const auto listener = listen(service, {});
    const auto remote =
        connect(listener->address(), std::nullopt, {.shared_memory = shared_memory});
    for (const std::int64_t size : {10 << 20, 1 << 20}) {
      // The second is not aligned, the third is narrow.
      const std::vector<at::Tensor> gradients = {at::arange(size, at::kFloat),
                                                 at::ones({3}, at::kDouble),
                                                 at::arange(size, at::kFloat).to(at::kBFloat16)};
      ExchangeRequest request{.push = Push{.number = 1, .gradients = {}}};
      for (const at::Tensor& each : gradients) request.push->gradients.push_back({"w", each});
      const ExchangeReply reply = remote->exchange(kToken, request, in_time(seconds(60)));
      EXPECT_EQ(reply.verdict, coordination::PushVerdict::kApply);
      ASSERT_EQ(reply.values.size(), gradients.size());
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        EXPECT_EQ(reply.values[i].value.dtype(), gradients[i].dtype()) << i;
        EXPECT_TRUE(at::equal(reply.values[i].value, gradients[i])) << i;
      }
    }
  }
}

TEST(RemoteService, APushThatIsAcknowledgedLaterComesBackAsItWasSent) {
  for (const bool shared_memory : {true, false}) {
    FakeService service;
    const auto listener = listen(service, {});
    const auto remote =
        connect(listener->address(), std::nullopt, {.shared_memory = shared_memory});
    EXPECT_TRUE(remote->copies_pushes());
    // The third is not aligned.
    const std::vector<at::Tensor> gradients = {at::arange(1 << 20, at::kFloat), at::ones({3}),
                                               at::ones({100}, at::kDouble), at::ones({0})};
    ExchangeRequest request{.push = Push{.number = 1, .gradients = {}, .acknowledge_later = true}};
    for (const at::Tensor& each : gradients) request.push->gradients.push_back({"w", each.clone()});
    const at::Tensor ids = at::arange(2, at::kLong), rows = at::ones({2, 5}, at::kHalf);
    request.push->rows = {{.name = "table", .indices = ids.clone(), .values = rows.clone()}};
    request.pull_rows = {{.name = "other", .indices = at::arange(7, at::kLong)}};
    const ExchangeReply reply = remote->exchange(kToken, request, in_time(seconds(60)));
    for (const checkpoint::NamedTensor& each : request.push->gradients) each.tensor.fill_(1000);
    request.push->rows.front().values.fill_(1000);
    remote->exchange(kToken, request, in_time(seconds(60)));
    ASSERT_TRUE(reply.sent.has_value());
    EXPECT_EQ(reply.sent->number, 1);
    ASSERT_EQ(reply.sent->gradients.size(), gradients.size());
    for (std::size_t i = 0; i < gradients.size(); ++i)
      EXPECT_TRUE(at::equal(reply.sent->gradients[i].tensor, gradients[i])) << i;
    EXPECT_TRUE(at::equal(reply.sent->rows.front().indices, ids));
    EXPECT_TRUE(at::equal(reply.sent->rows.front().values, rows));
    request.push->acknowledge_later = false;
    EXPECT_FALSE(remote->exchange(kToken, request, in_time()).sent.has_value());
  }
}

/// A push of gradients that are known later.
ExchangeRequest announced(const std::vector<at::Tensor>& gradients) {
  ExchangeRequest request{.push = Push{.number = 1, .gradients = {}}};
  for (const at::Tensor& each : gradients)
    request.push->gradients.push_back(
        {"w", at::zeros({}, each.scalar_type()).expand(each.sizes())});
  return request;
}

TEST(RemoteService, APushIsSentWhileItsGradientsComeIntoBeing) {
  for (const bool shared_memory : {true, false}) {
    FakeService service;
    const auto listener = listen(service, {});
    const auto remote =
        connect(listener->address(), std::nullopt, {.shared_memory = shared_memory});
    const std::vector<at::Tensor> gradients = {at::arange(3 << 20, at::kFloat),
                                               at::ones({3}, at::kDouble), at::ones({0}),
                                               at::arange(1 << 20, at::kFloat).to(at::kBFloat16)};
    const ExchangeRequest request = announced(gradients);
    for (int i = 0; i < 3; ++i) {  // given up: after nothing, a part, and all
      const auto open = remote->begin_exchange(kToken, request, in_time(seconds(60)));
      for (int k = 0; k < 2 * i; ++k) open->add(gradients[static_cast<std::size_t>(k)]);
    }
    const auto open = remote->begin_exchange(kToken, request, in_time(seconds(60)));
    for (const at::Tensor& each : gradients) open->add(each);
    const ExchangeReply reply = open->finish();
    EXPECT_EQ(reply.verdict, coordination::PushVerdict::kApply);
    ASSERT_EQ(reply.values.size(), gradients.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_EQ(reply.values[i].value.dtype(), gradients[i].dtype()) << i;
      EXPECT_TRUE(at::equal(reply.values[i].value, gradients[i])) << i;
    }
    EXPECT_EQ(service.count("exchange"), 1) << "those that were given up";
  }
}

TEST(RemoteService, ErrorsOfAPushThatIsSentEarlyKeepTheirTypes) {
  FakeService service;
  const auto listener = listen(service, {});
  const auto remote = connect(listener->address(), std::nullopt);
  const at::Tensor gradient = at::ones({100'000});
  const auto push = [&](const std::string& token) {
    const auto open = remote->begin_exchange(token, announced({gradient}), in_time());
    open->add(gradient);
    open->finish();
  };
  EXPECT_THROW(push("another token"), NotMemberError);
  service.set_failure_of("exchange", [] { throw ReplacedError("A later one has joined."); });
  EXPECT_THROW(push(kToken), ReplacedError);
  service.set_failure_of("exchange",
                         [] { throw PushRefusedError(ErrorCode::kNotFound, "No such variable."); });
  EXPECT_THROW(push(kToken), PushRefusedError);
}

TEST(RemoteService, ValuesStayAsTheyAreWhileLaterCallsAreMade) {
  FakeService service;
  const auto listener = listen(service, {});
  const auto remote = connect(listener->address(), std::nullopt);
  const at::Tensor first = at::arange(1 << 20, at::kFloat);
  const ExchangeReply kept = remote->exchange(kToken, push_of(first), in_time(seconds(60)));
  for (int i = 0; i < 3; ++i)
    remote->exchange(kToken, push_of(at::ones({1 << 20})), in_time(seconds(60)));
  EXPECT_TRUE(at::equal(kept.values[0].value, first));
}

TEST(RemoteService, ErrorsKeepTheirTypes) {
  FakeService service;
  const auto listener = listen(service, {});
  const auto remote = connect(listener->address(), std::nullopt);
  EXPECT_THROW(remote->renew("another token", in_time()), NotMemberError);
  EXPECT_THROW(remote->exchange("another token", push_of(at::ones({3})), in_time()),
               NotMemberError);
  service.set_failure([] { throw ReplacedError("A later incarnation has joined."); });
  EXPECT_THROW(remote->renew(kToken, in_time()), ReplacedError);
  EXPECT_THROW(remote->exchange(kToken, push_of(at::ones({3})), in_time()), ReplacedError);
  EXPECT_THROW(remote->begin_step(kToken, {.wait = seconds(5)}, in_time()), ReplacedError);
  service.set_failure([] {
    throw rpc::MessageError(ErrorCode::kResourceExhausted, "Later.", std::string(rpc::kBusyKind));
  });
  EXPECT_THROW(remote->renew(kToken, in_time()), ServerBusyError);
  service.set_failure([] { throw PushRefusedError(ErrorCode::kNotFound, "No such variable."); });
  try {
    remote->exchange(kToken, push_of(at::ones({3})), in_time());
    ADD_FAILURE() << "it succeeded";
  } catch (const PushRefusedError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_STREQ(error.what(), "No such variable.");
  }
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    service.set_failure([code] { throw Error(static_cast<ErrorCode>(code), "The reason."); });
    try {
      remote->set_ready(kToken, in_time());
      ADD_FAILURE() << code;
    } catch (const NotMemberError&) {
      ADD_FAILURE() << code;
    } catch (const ReplacedError&) {
      ADD_FAILURE() << code;
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.code()), code);
      EXPECT_STREQ(error.what(), "The reason.");
    }
  }
}

TEST(RemoteService, AStepThatIsNotAllowedReturnsAfterItsWait) {
  FakeService service;
  const auto listener = listen(service, {});
  const auto remote = connect(listener->address(), std::nullopt);
  const BeginStepReply reply = remote->begin_step(kToken, {.wait = milliseconds(500)}, in_time());
  EXPECT_FALSE(reply.may_begin);
  EXPECT_EQ(reply.waiting_for, std::vector<std::string>{"/job:worker/task:0"});
}

TEST(RemoteService, AWaitingStepHoldsUpNothingAndIsReplacedByTheNext) {
  FakeService service;
  const auto listener = listen(service, {.tasks = 2});
  const auto remote = connect(listener->address(), std::nullopt);
  const auto begin = [&] {
    return remote->begin_step(kToken, {.wait = seconds(30)}, in_time(seconds(60))).may_begin;
  };
  auto first = std::async(std::launch::async, begin);
  const auto until = in_time();
  while (service.count("begin_step") == 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  auto second = std::async(std::launch::async, begin);
  try {
    first.get();
    ADD_FAILURE() << "it was not replaced";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted) << error.what();
  }
  EXPECT_EQ(remote->renew(kToken, in_time()).step, 5);
  service.allow();
  EXPECT_TRUE(second.get());
}

TEST(RemoteService, NeitherJoinsNorWorkHoldUpRenewalsAndLeaves) {
  FakeService service;
  std::promise<void> release;
  const auto released = release.get_future().share();
  std::atomic<int> blocked{0};
  service.set_failure_of("join", [&, released] {
    ++blocked;
    released.wait();
  });
  const auto listener = listen(service, {.tasks = 4, .threads = 4});
  const auto remote = connect(listener->address(), std::nullopt);
  std::vector<std::future<Grant>> joins;
  for (int i = 0; i < 4; ++i)
    joins.push_back(std::async(std::launch::async, [&] {
      return remote->join({{"worker", 1}, 2}, in_time(seconds(60)));
    }));
  const auto until = in_time();
  while (blocked < 4 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_EQ(blocked, 4);
  EXPECT_NO_THROW(remote->renew(kToken, in_time(seconds(5))));
  EXPECT_NO_THROW(remote->leave(kToken, in_time(seconds(5))));
  release.set_value();
  for (auto& each : joins) EXPECT_EQ(each.get().incarnation, 3);
}

/// Those that leave wait for the disk, and for a replica, whose own calls have to be admitted.
TEST(RemoteService, TasksThatLeaveHoldUpNothing) {
  FakeService service;
  std::promise<void> release;
  const auto released = release.get_future().share();
  std::atomic<int> blocked{0};
  service.set_failure_of("leave", [&, released] {
    ++blocked;
    released.wait();
  });
  const auto listener = listen(service, {.tasks = 4, .threads = 4});
  const auto remote = connect(listener->address(), std::nullopt);
  std::vector<std::future<void>> leaves;
  for (int i = 0; i < 4; ++i)
    leaves.push_back(
        std::async(std::launch::async, [&] { remote->leave(kToken, in_time(seconds(60))); }));
  const auto until = in_time();
  while (blocked < 4 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_EQ(blocked, 4);
  EXPECT_NO_THROW(remote->renew(kToken, in_time(seconds(5))));
  EXPECT_NO_THROW(remote->states(kToken, {}, in_time(seconds(5)))) << "it is admitted first";
  release.set_value();
  for (auto& each : leaves) EXPECT_NO_THROW(each.get());
}

TEST(RemoteService, WhatAStrangerSendsIsNotRead) {
  FakeService service;
  const auto listener = listen(service, {});
  const auto client = rpc::make_message_client(listener->address(), std::nullopt);
  const auto kind_of_call = [&](ServiceMethod method, const std::string& token) -> std::string {
    try {
      client->call(static_cast<int>(method), token, "no message", in_time());
    } catch (const rpc::MessageError& error) {
      return error.kind();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
      return "wrong";
    }
    return "none";
  };
  EXPECT_EQ(kind_of_call(ServiceMethod::kSetLearningRate, "a stranger's"), kNotMemberKind);
  EXPECT_EQ(kind_of_call(ServiceMethod::kBeginStep, "a stranger's"), kNotMemberKind);
  EXPECT_EQ(kind_of_call(ServiceMethod::kSetLearningRate, kToken), "wrong");
  EXPECT_EQ(service.count("set_learning_rate"), 0);
}

TEST(RemoteService, ACallOfTheWrongSizeIsRefused) {
  FakeService service;
  const auto listener = listen(service, {});
  const auto client = rpc::make_message_client(listener->address(), std::nullopt);
  const auto code = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;  // it succeeded
  };
  const std::string states =
      encode_message({.header = to_state(std::vector<std::string>{"a"})}).joined();
  EXPECT_EQ(code([&] {
              client->call(static_cast<int>(ServiceMethod::kStates), kToken, states, in_time());
            }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([&] {
              client->large_call(static_cast<int>(ServiceMethod::kSetLearningRate), kToken,
                                 encode_state(to_state(0.125)), in_time());
            }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(service.count("states"), 0);
  EXPECT_EQ(service.count("set_learning_rate"), 0);
}

TEST(RemoteService, ManyThreadsCallAtTheSameTime) {
  FakeService service;
  const auto listener = listen(service, {.tasks = 8});
  const auto remote = connect(listener->address(), std::nullopt);
  std::atomic<int> succeeded{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        const at::Tensor gradient = at::arange(i, i + 300'000, at::kDouble);
        for (int round = 0; round < 5; ++round) {
          const ExchangeReply reply =
              remote->exchange(kToken, push_of(gradient), in_time(seconds(60)));
          if (at::equal(reply.values.at(0).value, gradient)) ++succeeded;
        }
      });
    }
  }
  EXPECT_EQ(succeeded, 40);
}

TEST(RemoteService, AListenerWithoutTasksIsRefused) {
  FakeService service;
  for (const ServiceListenerOptions& options :
       {ServiceListenerOptions{.tasks = 0}, ServiceListenerOptions{.threads = -1}}) {
    EXPECT_THROW(listen(service, options), Error);
  }
}

}  // namespace
}  // namespace brigade::ps
