#include "brigade/ps/server/server_core.h"

#include <gtest/gtest.h>

#include <functional>
#include <tuple>

#include "brigade/base/testing/error_code.h"
#include "brigade/base/testing/manual_clock.h"
#include "brigade/io/testing/faulty_file_system.h"
#include "brigade/io/testing/gated_file_system.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/ps/testing/member.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using coordination::PushVerdict;
using testing::LocalServers;
using testing::Member;
using testing::ServiceCall;

const cluster::Task kFirst = {.job = "worker", .index = 0};  // the chief
const cluster::Task kSecond = {.job = "worker", .index = 1};
constexpr std::chrono::seconds kLease{8};
constexpr JobConfig kStepsOfTwo = {.mode = UpdateMode::kSync,
                                   .sync = {.replicas_to_aggregate = 2, .total_replicas = 2}};

/// Two tasks and their servers, in virtual time.
struct TwoTasks {
  base::ManualClock clock;
  LocalServers servers;
  explicit TwoTasks(int count = 1)
      : servers({.servers = count, .tasks = {kFirst, kSecond}, .lease = kLease, .clock = &clock}) {}

  void advance(std::chrono::milliseconds time) {
    clock.advance(time);
    servers.tick();
  }
  ServerCore& core() { return servers[0].core(); }
};

/// The chief's membership of a server that is ready.
Member ready_chief(TwoTasks& job, const JobConfig& config = {}) {
  Member chief(job.servers[0], kFirst);
  chief.create(config);
  chief.set_ready();
  return chief;
}

bool is_no_member(const std::function<void()>& call) {
  try {
    call();
  } catch (const NotMemberError&) {
    return true;
  }
  return false;
}

bool is_replaced(const std::function<void()>& call) {
  try {
    call();
  } catch (const ReplacedError&) {
    return true;
  }
  return false;
}

/// Every call that needs a token.
std::vector<std::function<void()>> calls_with(ParameterService& service, const std::string& token) {
  const auto end = Member::deadline();
  return {[&, token, end] { service.renew(token, end); },
          [&, token, end] { service.leave(token, end); },
          [&, token, end] { service.create(token, Member::creation({}), end); },
          [&, token, end] { service.assign(token, {}, 5, end); },
          [&, token, end] { service.set_ready(token, end); },
          [&, token, end] { service.set_learning_rate(token, 2, end); },
          [&, token, end] { service.exchange(token, {.pull = {"w"}}, end); },
          [&, token, end] { service.states(token, {"w"}, end); },
          [&, token, end] { service.begin_step(token, {}, end); }};
}

TEST(ServerCore, EveryCallNeedsTheTokenOfAJoin) {
  TwoTasks job;
  Member chief = ready_chief(job);
  std::string wrong = chief.token();
  wrong.back() = static_cast<char>(wrong.back() ^ 1);
  for (const std::string& token : {std::string(), std::string("worker"), wrong}) {
    int number = 0;
    for (const auto& call : calls_with(chief.service(), token))
      EXPECT_TRUE(is_no_member(call)) << number++;
  }
  EXPECT_EQ(job.core().counters().refused_calls, 3 * 9);
  EXPECT_EQ(job.core().status().step, 0);
  chief.pull();
}

TEST(ServerCore, OnlyTheChiefCreatesAssignsAndConfigures) {
  TwoTasks job;
  Member chief(job.servers[0], kFirst);
  Member worker(job.servers[0], kSecond);
  const auto end = Member::deadline();
  auto& service = worker.service();
  const auto is_refused = [&] {
    for (const std::function<void()>& call : {
             std::function<void()>([&] { worker.create({}); }),
             std::function<void()>([&] { service.assign(worker.token(), {}, 5, end); }),
             std::function<void()>([&] { worker.set_ready(); }),
             std::function<void()>([&] { service.set_learning_rate(worker.token(), 2, end); }),
         })
      EXPECT_EQ(code_of(call), ErrorCode::kPermissionDenied);
  };
  is_refused();
  EXPECT_FALSE(job.core().status().is_created);
  chief.create({});
  is_refused();
  const ServerStatus status = job.core().status();
  EXPECT_FALSE(status.is_ready);
  EXPECT_EQ(status.step, 0);
  EXPECT_EQ(status.learning_rate, 1);
  EXPECT_EQ(job.core().counters().refused_calls, 8);
}

TEST(ServerCore, OnlyTasksOfTheJobJoin) {
  TwoTasks job(2);
  auto service = job.servers[0].connect();
  const auto join = [&](const cluster::Task& task, std::int64_t incarnation) {
    return code_of(
        [&] { service->join({.task = task, .incarnation = incarnation}, Member::deadline()); });
  };
  EXPECT_EQ(join({.job = "worker", .index = 2}, 0), ErrorCode::kNotFound);
  EXPECT_EQ(join({.job = "chief", .index = 0}, 1), ErrorCode::kNotFound);
  EXPECT_EQ(join(kFirst, -1), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { Member(job.servers[1], kFirst); }), ErrorCode::kInvalidArgument)
      << "the first server gives incarnations";
  EXPECT_EQ(Member(job.servers[1], kFirst, 3).incarnation(), 3);
}

TEST(ServerCore, ASuccessorEndsTheLifeBeforeIt) {
  TwoTasks job(2);
  Member before(job.servers[0], kSecond);
  Member before_at_other(job.servers[1], kSecond, before.incarnation());
  EXPECT_EQ(before.incarnation(), 1);
  Member chief = ready_chief(job);
  Member after(job.servers[0], kSecond);
  EXPECT_EQ(after.incarnation(), 2);
  for (const auto& call : calls_with(before.service(), before.token()))
    EXPECT_TRUE(is_no_member(call));
  EXPECT_TRUE(is_replaced([&] { before.join_again(); }));
  after.pull();

  before_at_other.service().renew(before_at_other.token(), Member::deadline());
  Member after_at_other(job.servers[1], kSecond, after.incarnation());
  EXPECT_TRUE(is_no_member(
      [&] { before_at_other.service().renew(before_at_other.token(), Member::deadline()); }));
  EXPECT_TRUE(is_replaced([&] { before_at_other.join_again(); }));
}

TEST(ServerCore, ASilentTaskIsLostAndJoinsAgainAsItWas) {
  TwoTasks job;
  Member chief = ready_chief(job);
  Member worker(job.servers[0], kSecond);
  for (int i = 0; i < 4; ++i) {  // each call renews
    job.advance(kLease - std::chrono::seconds(1));
    worker.pull();
    chief.pull();
  }
  EXPECT_TRUE(job.core().next_expiry());
  job.advance(kLease / 2);
  chief.pull();
  job.advance(kLease / 2);
  EXPECT_TRUE(is_no_member([&] { worker.pull(); }));
  chief.pull();
  worker.join_again();
  EXPECT_EQ(worker.incarnation(), 1);
  worker.pull();
}

TEST(ServerCore, AStartedServerKnowsIncarnationsButNoTokens) {
  TwoTasks job;
  Member chief = ready_chief(job);
  Member worker(job.servers[0], kSecond);
  worker.join(0);
  EXPECT_EQ(worker.incarnation(), 2);
  job.servers[0].restart();
  EXPECT_TRUE(is_no_member([&] { worker.pull(); }));
  EXPECT_TRUE(is_replaced([&] { worker.join(1); }));
  worker.join(2);
  EXPECT_EQ(worker.pull(), 0);
  worker.join(0);
  EXPECT_EQ(worker.incarnation(), 3);
}

TEST(ServerCore, ReportsWhatHappensToMemberships) {
  std::vector<std::tuple<TaskChange, cluster::Task, std::int64_t>> changes;
  base::ManualClock clock;
  ServerCore core(
      std::make_shared<io::MemoryFileSystem>(),
      {.tasks = {kFirst, kSecond},
       .lease = kLease,
       .store = {.folder = "/server"},
       .on_change = [&](TaskChange change, const cluster::Task& task,
                        std::int64_t number) { changes.emplace_back(change, task, number); }},
      clock);
  const auto end = Member::deadline();
  const Grant chief = core.join({.task = kFirst}, end);
  core.join({.task = kFirst, .incarnation = 1}, end);  // its connection was lost: no change
  core.join({.task = kSecond}, end);
  const Grant second = core.join({.task = kSecond}, end);
  core.leave(second.token, end);
  clock.advance(kLease);
  core.tick();
  const decltype(changes) expected = {
      {TaskChange::kJoined, kFirst, 1},    {TaskChange::kJoined, kSecond, 1},
      {TaskChange::kReplaced, kSecond, 1}, {TaskChange::kJoined, kSecond, 2},
      {TaskChange::kFinished, kSecond, 2}, {TaskChange::kLost, kFirst, 1}};
  EXPECT_EQ(changes, expected);
}

TEST(ServerCore, APushWhoseReplyIsLostIsAppliedOnce) {
  TwoTasks job;
  Member chief = ready_chief(job);
  Member worker(job.servers[0], kSecond);
  job.servers[0].lose_requests(ServiceCall::kExchange);
  EXPECT_EQ(code_of([&] { worker.push(1, 1); }), ErrorCode::kUnavailable);
  EXPECT_EQ(chief.pull(), 0);
  job.servers[0].lose_replies(ServiceCall::kExchange, 2);
  for (int time = 0; time < 2; ++time)
    EXPECT_EQ(code_of([&] { worker.push(1, 1); }), ErrorCode::kUnavailable);
  EXPECT_EQ(chief.pull(), -1);
  const ExchangeReply again = worker.push(1, 1);
  EXPECT_EQ(again.verdict, PushVerdict::kDuplicate);
  EXPECT_EQ(again.step, 1);

  EXPECT_EQ(worker.push(3, 1).verdict, PushVerdict::kGap);
  EXPECT_EQ(worker.push(2, 1).verdict, PushVerdict::kApply);
  job.servers[0].restart();
  worker.join_again();
  EXPECT_EQ(worker.push(2, 1).verdict, PushVerdict::kDuplicate);
  EXPECT_EQ(worker.pull(), -2);
  EXPECT_EQ(job.core().status().step, 2);
  EXPECT_EQ(job.core().counters().duplicates, 1) << "since the server was started";
}

TEST(ServerCore, ASuccessorCountsItsPushesFromOne) {
  TwoTasks job;
  Member chief = ready_chief(job);
  Member worker(job.servers[0], kSecond);
  worker.push(1, 1);
  worker.join(0);
  EXPECT_EQ(worker.push(1, 1).verdict, PushVerdict::kApply);
  EXPECT_EQ(worker.push(1, 1).verdict, PushVerdict::kDuplicate);
  EXPECT_EQ(chief.pull(), -2);
}

TEST(ServerCore, WorkersWaitUntilTheChiefSaysThatVariablesAreReady) {
  TwoTasks job;
  Member chief(job.servers[0], kFirst);
  Member worker(job.servers[0], kSecond);
  EXPECT_EQ(code_of([&] { chief.pull(); }), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(code_of([&] { chief.set_ready(); }), ErrorCode::kFailedPrecondition);
  EXPECT_FALSE(chief.create({}).is_created);
  EXPECT_EQ(code_of([&] { worker.pull(); }), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(code_of([&] { worker.push(1, 1); }), ErrorCode::kFailedPrecondition);
  for (Member* each : {&chief, &worker})
    EXPECT_EQ(code_of([&] { each->begin_step(); }), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(chief.pull(), 0);

  const std::vector<NamedState> restored = {
      {"w", {.value = at::full({2}, 3., at::kDouble), .slots = {}, .updates = 40}}};
  const auto assign = [&] {
    chief.service().assign(chief.token(), restored, 40, Member::deadline());
  };
  assign();
  chief.set_ready();
  EXPECT_EQ(code_of(assign), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(worker.pull(), 3);
  EXPECT_EQ(worker.push(1, 1).step, 41);
  EXPECT_TRUE(worker.begin_step().may_begin);

  const ServerStatus status = chief.create({});  // by a chief that was restarted
  EXPECT_TRUE(status.is_created);
  EXPECT_TRUE(status.is_ready);
  EXPECT_EQ(status.step, 41);
}

TEST(ServerCore, AJobThatCannotWorkIsNotCreated) {
  TwoTasks job;
  Member chief(job.servers[0], kFirst);
  JobConfig of_three = kStepsOfTwo;
  of_three.sync = {.replicas_to_aggregate = 3, .total_replicas = 3};
  EXPECT_EQ(code_of([&] { chief.create(of_three); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { chief.create({.staleness = -1}); }), ErrorCode::kInvalidArgument);
  CreateRequest unknown_rule = Member::creation({});
  unknown_rule.rule = io::StateTree::dict();
  EXPECT_EQ(
      code_of([&] { chief.service().create(chief.token(), unknown_rule, Member::deadline()); }),
      ErrorCode::kInvalidArgument);
  EXPECT_FALSE(job.core().status().is_created);
  chief.create(kStepsOfTwo);
  EXPECT_EQ(job.core().status().job, kStepsOfTwo);
  EXPECT_EQ(code_of([&] { chief.create({}); }), ErrorCode::kAlreadyExists);
  job.servers[0].restart();
  EXPECT_EQ(job.core().status().job, kStepsOfTwo);
}

TEST(ServerCore, NobodySeesAJobWithoutItsMode) {
  bool has_succeeded = false;
  for (std::size_t after = 0; !has_succeeded; ++after) {
    ASSERT_LT(after, 100U) << "the variables are never created";
    const auto files =
        std::make_shared<io::FaultyFileSystem>(std::make_shared<io::MemoryFileSystem>());
    LocalServers servers({.servers = 1, .tasks = {kFirst, kSecond}, .files = files});
    Member chief(servers[0], kFirst);
    files->inject({.after = after, .length = io::FaultLength::kEverAfter});
    try {
      chief.create(kStepsOfTwo);
      has_succeeded = true;
    } catch (const Error&) {
    }
    const ServerStatus status = servers[0].core().status();
    EXPECT_TRUE(!status.is_created || status.job == kStepsOfTwo) << "fault after " << after;
    EXPECT_TRUE(status.is_created || !has_succeeded);
    files->heal();
  }
}

TEST(ServerCore, APushFitsTheModeOfItsJob) {
  {
    TwoTasks job;
    Member chief = ready_chief(job);
    EXPECT_EQ(code_of([&] { chief.push(1, 1, Member::Token{0, 0}); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of([&] { chief.pull(coordination::StepDecision{}); }),
              ErrorCode::kInvalidArgument);
  }
  TwoTasks job;
  Member chief = ready_chief(job, kStepsOfTwo);
  EXPECT_EQ(code_of([&] { chief.push(1, 1); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] {
              chief.pull(coordination::StepDecision{.step = 0, .contributions = {{0, 0}}});
            }),
            ErrorCode::kFailedPrecondition)
      << "the coordinator makes the decisions";
  EXPECT_EQ(chief.push(1, 1, Member::Token{0, 0}).verdict, PushVerdict::kApply);
  EXPECT_EQ(job.core().status().step, 0);
}

TEST(ServerCore, IsFinishedWhenTheChiefIsAndNobodyTrains) {
  TwoTasks job;
  Member chief = ready_chief(job);
  Member worker(job.servers[0], kSecond);
  EXPECT_FALSE(job.core().is_finished());
  chief.leave();
  EXPECT_FALSE(job.core().is_finished()) << "a worker trains";
  EXPECT_TRUE(is_no_member([&] { chief.leave(); })) << "its token is void";
  chief.join_again();
  worker.leave();
  EXPECT_FALSE(job.core().is_finished()) << "the chief trains again";
  worker.join(0);
  chief.leave();
  job.advance(kLease);
  EXPECT_FALSE(job.core().is_finished()) << "the worker was lost, and may return";
  job.advance(3 * kLease);
  EXPECT_TRUE(job.core().is_finished());

  TwoTasks other;
  Member lost = ready_chief(other);
  other.advance(kLease);
  EXPECT_FALSE(other.core().is_finished()) << "a chief that was lost has a successor";
}

TEST(ServerCore, AServerThatIsRestartedAfterTheChiefHasFinishedEnds) {
  TwoTasks job;
  Member chief = ready_chief(job);
  Member worker(job.servers[0], kSecond);
  chief.leave();
  job.servers[0].restart();
  EXPECT_TRUE(job.core().has_chief_finished());
  EXPECT_FALSE(job.core().is_finished());
  worker.join_again();
  job.advance(kLease / 2);
  worker.leave();
  job.advance(2 * kLease);
  EXPECT_FALSE(job.core().is_finished()) << "the job may begin again in this folder";
  job.advance(kLease);
  EXPECT_TRUE(job.core().is_finished());

  job.servers[0].restart();
  chief.join_again();
  job.servers[0].restart();
  EXPECT_FALSE(job.core().has_chief_finished()) << "it trains again";
  job.advance(10 * kLease);
  EXPECT_FALSE(job.core().is_finished());
}

TEST(ServerCore, AServerWhoseDiskHasFailedIsUnavailableUntilItIsStartedAgain) {
  const auto files =
      std::make_shared<io::FaultyFileSystem>(std::make_shared<io::MemoryFileSystem>());
  LocalServers servers({.servers = 1, .tasks = {kFirst, kSecond}, .files = files});
  Member chief(servers[0], kFirst);
  chief.create({});
  chief.set_ready();
  chief.push(1, 1);
  EXPECT_FALSE(servers[0].core().failure());
  files->inject({});
  EXPECT_EQ(code_of([&] { chief.push(2, 1); }), ErrorCode::kUnavailable);
  EXPECT_TRUE(servers[0].core().failure());
  EXPECT_EQ(code_of([&] { chief.push(2, 1); }), ErrorCode::kUnavailable);
  EXPECT_EQ(code_of([&] { Member(servers[0], kSecond); }), ErrorCode::kUnavailable);
  servers[0].restart();
  chief.join_again();
  chief.push(2, 1);
  EXPECT_EQ(chief.pull(), -2) << "once, whether its record was written or not";
}

TEST(ServerCore, RefusesCallsOnceItIsClosed) {
  TwoTasks job;
  Member chief = ready_chief(job);
  job.core().close();
  for (const auto& call : calls_with(chief.service(), chief.token())) {
    try {
      call();
      ADD_FAILURE() << "did not throw";
    } catch (const NotMemberError& error) {
      ADD_FAILURE() << "its caller would join again: " << error.what();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    }
  }
  EXPECT_EQ(code_of([&] { Member(job.servers[0], kSecond); }), ErrorCode::kUnavailable);
}

TEST(ServerCore, ReturnsStatesForACheckpoint) {
  TwoTasks job;
  Member chief = ready_chief(job);
  chief.push(1, 2);
  const auto [states, step, decision] =
      chief.service().states(chief.token(), {"w"}, Member::deadline());
  EXPECT_EQ(step, 1);
  ASSERT_EQ(states.size(), 1U);
  EXPECT_EQ(states[0].name, "w");
  EXPECT_EQ(states[0].state.value[1].item<double>(), -2);
  EXPECT_EQ(states[0].state.updates, 1);
  chief.service().set_learning_rate(chief.token(), 0.5, Member::deadline());
  EXPECT_EQ(Member::value_of(chief.push(2, 2)), -3);
  EXPECT_EQ(job.core().status().learning_rate, 0.5);
  const ServerCounters counters = job.core().counters();
  EXPECT_EQ(counters.pushes, 2);
  EXPECT_EQ(counters.pulls, 2);
}

TEST(ServerCore, APushMayBeAcknowledgedAfterItsAnswer) {
  const auto files =
      std::make_shared<io::GatedFileSystem>(std::make_shared<io::MemoryFileSystem>());
  testing::LocalServer server(
      {.core = {.tasks = {kFirst}, .store = {.folder = "/server"}}, .files = files});
  Member chief(server, kFirst);
  chief.create({});
  chief.set_ready();
  const at::Tensor gradient = at::full({2}, 1, at::kDouble);
  const auto push = [&](std::int64_t number, ParameterService::Time deadline) {
    return chief.service().exchange(
        chief.token(),
        {.push = Push{.number = number, .gradients = {{"w", gradient}}, .acknowledge_later = true},
         .pull = {"w"}},
        deadline);
  };
  const auto await_disk = [&](ParameterService::Time deadline) {
    chief.service().exchange(chief.token(), {.pull = {}, .await_disk = true}, deadline);
  };
  const auto soon = [] { return std::chrono::steady_clock::now() + std::chrono::milliseconds(20); };
  await_disk(soon());

  files->close_gate();
  const ExchangeReply first = push(1, Member::deadline());
  EXPECT_EQ(first.verdict, PushVerdict::kApply);
  EXPECT_EQ(first.acknowledged, 0);
  EXPECT_EQ(Member::value_of(first), -1);
  files->await_sync();
  EXPECT_EQ(chief.pull(), -1) << "reading waits for no disk";
  EXPECT_EQ(code_of([&] { await_disk(soon()); }), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(code_of([&] { push(2, soon()); }), ErrorCode::kDeadlineExceeded)
      << "one push at a time";

  files->open_gate();
  await_disk(Member::deadline());
  const ExchangeReply again = push(2, Member::deadline());
  EXPECT_EQ(again.verdict, PushVerdict::kDuplicate);
  EXPECT_EQ(again.acknowledged, 2) << "a repetition waits for the disk";
  EXPECT_EQ(push(3, Member::deadline()).acknowledged, 2);
  EXPECT_EQ(chief.push(4, 1).acknowledged, 4);
}

TEST(ServerCore, ReportsHowStaleAPushWas) {
  TwoTasks job;
  Member chief = ready_chief(job);
  const auto pushed_at_step = [&](std::int64_t number, std::optional<std::int64_t> step) {
    const Push push = {
        .number = number, .gradients = {{"w", at::full({2}, 1, at::kDouble)}}, .read_at = step};
    return chief.exchange({.push = push, .pull = {"w"}});
  };
  EXPECT_EQ(pushed_at_step(1, 0).staleness, 0);
  EXPECT_EQ(pushed_at_step(2, 0).staleness, 1);
  EXPECT_EQ(pushed_at_step(2, 0).staleness, std::nullopt) << "it was applied before";
  EXPECT_EQ(pushed_at_step(3, std::nullopt).staleness, std::nullopt);
  EXPECT_EQ(chief.exchange({.pull = {"w"}}).staleness, std::nullopt);
}

TEST(ServerCore, WritesASnapshotWhenTheLogHasGrownAndAtTheEnd) {
  for (const bool is_finished : {false, true}) {
    const auto files = std::make_shared<io::MemoryFileSystem>();
    const ServerCoreOptions options = {
        .tasks = {kFirst},
        .store = {.folder = "/server"},
        .snapshot_after_bytes = is_finished ? std::uint64_t{1} << 30 : 1000};
    {
      testing::LocalServer server({.core = options, .files = files});
      Member chief(server, kFirst);
      chief.create({});
      chief.set_ready();
      for (int number = 1; number <= 100; ++number) chief.push(number, 1);
      if (is_finished) chief.leave();
    }  // waits for the snapshot
    const ParameterStore opened(files, options.store);
    EXPECT_EQ(opened.step(), 100);
    EXPECT_TRUE(files->exists("/server/snapshots"));
    if (is_finished) {
      EXPECT_EQ(opened.log_bytes(), 0U);
    }
  }
}

}  // namespace
}  // namespace brigade::ps
