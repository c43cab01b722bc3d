#include "brigade/rpc/rendezvous_state.h"
#include "brigade/base/testing/manual_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

namespace brigade::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

class RecordingListener final : public Listener {
 public:
  void on_event(const RendezvousEvent& event) override { events.push_back(event); }
  void on_end(const MembershipEnd& ending) override { endings.push_back(ending); }

  template <class Kind>
  std::vector<Kind> all() const {
    std::vector<Kind> found;
    for (const RendezvousEvent& event : events) {
      if (const auto* kind = std::get_if<Kind>(&event)) found.push_back(*kind);
    }
    return found;
  }
  std::string end_text() const {
    return endings.size() == 1 && endings[0].error ? endings[0].error->what() : "";
  }
  ErrorCode end_code() const { return endings.at(0).error.value().code(); }

  std::vector<RendezvousEvent> events;
  std::vector<MembershipEnd> endings;
};

cluster::Member member(int rank) {
  return {rank, {"worker", rank}, "host-" + std::to_string(rank), 100 + rank};
}

Hello hello(int rank, int world_size = 2) {
  return {.member = member(rank), .world_size = world_size, .start_timeout = seconds(30)};
}

/// A member, as the test knows it: by its number where it beats or leaves, with its token in calls.
struct Caller : Credential {
  operator MemberId() const { return id; }
};

struct TestRendezvous {
  explicit TestRendezvous(int world_size, int host_rank = -1)
      : state({.world_size = world_size,
               .peer_timeout = seconds(10),
               .host = {host_rank, {"launcher", 0}, "front", 1},
               .on_lost =
                   [this](const auto& member_lost, int generation) {
                     lost.push_back(member_lost);
                     generations.push_back(generation);
                   },
               .on_left = [this](const auto& who, int) { left.push_back(who.rank); }},
              clock) {
    for (int rank = 0; rank < world_size; ++rank)
      listeners.push_back(std::make_shared<RecordingListener>());
  }
  Caller join(int rank) {
    const auto id =
        state.join(hello(rank, static_cast<int>(listeners.size())), listeners.at(rank)).value();
    Caller caller{listeners.at(rank)->all<Welcome>().back().credential};
    EXPECT_EQ(caller.id, id);
    return caller;
  }
  std::vector<Caller> join_all() {
    std::vector<Caller> ids;
    for (int rank = 0; rank < static_cast<int>(listeners.size()); ++rank) ids.push_back(join(rank));
    return ids;
  }
  /// Lets time pass as the server's watcher sees it: in small steps.
  void pass(seconds time) {
    for (int second = 0; second < time.count(); ++second) {
      clock.advance(seconds(1));
      state.tick();
    }
  }
  Reply into(std::vector<CallResult>& results) {
    return [&results](const CallResult& result) { results.push_back(result); };
  }

  base::ManualClock clock;
  std::vector<cluster::LostMember> lost;
  std::vector<int> left;
  std::vector<int> generations;  // of the losses
  RendezvousState state;
  std::vector<std::shared_ptr<RecordingListener>> listeners;
};

TEST(RendezvousState, NotifiesAllMembersOfTheJoinedMembers) {
  TestRendezvous rendezvous(2);
  rendezvous.join(1);
  EXPECT_TRUE(rendezvous.listeners[1]->all<AllJoined>().empty());
  rendezvous.join(0);
  for (const auto& listener : rendezvous.listeners) {
    ASSERT_EQ(listener->all<AllJoined>().size(), 1u);
    EXPECT_EQ(listener->all<AllJoined>()[0].members, (std::vector{member(0), member(1)}));
    EXPECT_EQ(listener->all<Welcome>()[0].peer_timeout, seconds(10));
  }
}

TEST(RendezvousState, RefusesASecondProcessOfTheRankAndNamesBoth) {
  TestRendezvous rendezvous(2);
  rendezvous.join(1);
  Hello second = hello(1);
  second.member.host = "elsewhere";
  const auto listener = std::make_shared<RecordingListener>();
  EXPECT_FALSE(rendezvous.state.join(second, listener));
  EXPECT_EQ(listener->end_code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(listener->end_text(), AllOf(HasSubstr("host-1"), HasSubstr("elsewhere")));
  EXPECT_TRUE(rendezvous.listeners[1]->endings.empty());
}

TEST(RendezvousState, RefusesOtherWorldsVersionsAndGenerations) {
  TestRendezvous rendezvous(2);
  rendezvous.state.begin_generation(4, 2);
  const auto refusal = [&](const Hello& who) {
    const auto listener = std::make_shared<RecordingListener>();
    EXPECT_FALSE(rendezvous.state.join(who, listener));
    return listener;
  };
  Hello who = hello(0);
  who.generation = 4;
  who.world_size = 3;
  EXPECT_THAT(refusal(who)->end_text(), AllOf(HasSubstr("3 processes"), HasSubstr("expects 2")));
  who.world_size = 2;
  who.protocol = 99;
  EXPECT_THAT(
      refusal(who)->end_text(),
      AllOf(HasSubstr("version 99"), HasSubstr("version " + std::to_string(kProtocolVersion))));
  who.protocol = kProtocolVersion;
  who.generation = 3;
  EXPECT_EQ(refusal(who)->end_code(), ErrorCode::kAborted);
  EXPECT_THAT(refusal(who)->end_text(),
              AllOf(HasSubstr("generation 3"), HasSubstr("generation 4")));
  who.generation = 5;
  EXPECT_TRUE(refusal(who)->endings[0].may_retry);
  who.generation = 4;
  who.member.rank = 2;
  EXPECT_EQ(refusal(who)->end_code(), ErrorCode::kFailedPrecondition);
}

TEST(RendezvousState, NamesTheMissingRanksToAllMembers) {
  TestRendezvous rendezvous(4);
  rendezvous.join(0);
  rendezvous.pass(seconds(5));
  rendezvous.join(2);
  for (int second = 0; second < 25; ++second) {
    rendezvous.state.heartbeat(1);
    rendezvous.state.heartbeat(2);
    rendezvous.pass(seconds(1));
  }
  for (const int rank : {0, 2}) {
    ASSERT_EQ(rendezvous.listeners[rank]->endings.size(), 1u);
    EXPECT_EQ(rendezvous.listeners[rank]->end_code(), ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(rendezvous.listeners[rank]->endings[0].missing, (std::vector{1, 3}));
    EXPECT_EQ(rendezvous.listeners[rank]->endings[0].waited, seconds(30));
  }
  const auto late = std::make_shared<RecordingListener>();
  EXPECT_FALSE(rendezvous.state.join(hello(3, 4), late));
  EXPECT_EQ(late->end_code(), ErrorCode::kDeadlineExceeded);
}

TEST(RendezvousState, LossDuringTheStartEndsIt) {
  TestRendezvous rendezvous(3);
  rendezvous.join(0);
  rendezvous.state.disconnect(rendezvous.join(1));
  EXPECT_THAT(rendezvous.listeners[0]->end_text(),
              AllOf(HasSubstr("worker/task:1"), HasSubstr("closed")));
}

TEST(RendezvousState, RefusesCallsWithoutTheCallersTokenAndChangesNothing) {
  TestRendezvous rendezvous(2);
  const auto ids = rendezvous.join_all();
  rendezvous.state.set(ids[0], "key", "value");
  std::vector<Credential> strangers = {{.id = 99, .token = ids[0].token}, {}};
  for (const Caller& member : ids) {
    strangers.push_back({.id = member.id});
    strangers.push_back({.id = member.id, .token = std::string(member.token.size(), 'x')});
    strangers.push_back({.id = member.id, .token = member.token.substr(1)});
  }
  strangers.push_back({.id = ids[0].id, .token = ids[1].token});
  std::vector<CallResult> results;
  for (const Credential& stranger : strangers) {
    for (const auto& call : std::vector<std::function<void()>>{
             [&] { rendezvous.state.set(stranger, "key", "diverted"); },
             [&] { rendezvous.state.add(stranger, "count", 1); }}) {
      try {
        call();
        FAIL();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kPermissionDenied);
      }
    }
    rendezvous.state.get(stranger, "key", seconds(60), rendezvous.into(results));
    rendezvous.state.barrier(stranger, "end", seconds(60), rendezvous.into(results));
  }
  ASSERT_EQ(results.size(), 2 * strangers.size());
  for (const CallResult& result : results) {
    ASSERT_TRUE(result.error);
    EXPECT_EQ(result.error->code(), ErrorCode::kPermissionDenied);
    EXPECT_EQ(result.value, "");
  }
  EXPECT_EQ(rendezvous.state.num_refused_calls(), static_cast<std::int64_t>(4 * strangers.size()));
  results.clear();
  rendezvous.state.barrier(ids[0], "end", seconds(60), rendezvous.into(results));
  EXPECT_TRUE(results.empty());  // no other member has reached it yet
  rendezvous.state.get(ids[1], "key", seconds(0), rendezvous.into(results));
  EXPECT_EQ(results.at(0).value, "value");
  EXPECT_EQ(rendezvous.state.add(ids[0], "count", 0), 0);
}

TEST(RendezvousState, ReportsWhetherARanksHolderIsPresentOrGone) {
  TestRendezvous rendezvous(2);
  const auto ids = rendezvous.join_all();
  const auto holder = [&] {
    const auto listener = std::make_shared<RecordingListener>();
    EXPECT_FALSE(rendezvous.state.join(hello(1), listener));
    return listener->endings.at(0).rank_holder;
  };
  EXPECT_EQ(holder(), RankHolder::kPresent);
  rendezvous.state.disconnect(ids[1]);
  EXPECT_EQ(holder(), RankHolder::kGone);
}

TEST(RendezvousState, ReportsTheKindOfALoss) {
  TestRendezvous closed(2);
  closed.state.disconnect(closed.join_all()[1]);
  EXPECT_EQ(closed.lost.at(0).kind, cluster::LossKind::kClosed);
  TestRendezvous silent(2);
  const auto ids = silent.join_all();
  for (int second = 0; second < 11; ++second) {
    silent.state.heartbeat(ids[0]);
    silent.pass(seconds(1));
  }
  EXPECT_EQ(silent.lost.at(0).kind, cluster::LossKind::kSilent);
}

TEST(RendezvousState, GetWaitsForSet) {
  TestRendezvous rendezvous(2);
  const auto ids = rendezvous.join_all();
  std::vector<CallResult> got;
  rendezvous.state.get(ids[0], "key", seconds(5), rendezvous.into(got));
  EXPECT_TRUE(got.empty());
  rendezvous.state.set(ids[1], "key", "value");
  rendezvous.state.get(ids[1], "key", seconds(0), rendezvous.into(got));
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].value, "value");
  EXPECT_EQ(got[1].value, "value");
}

TEST(RendezvousState, GetEndsAtItsDeadlineAndNamesTheKey) {
  TestRendezvous rendezvous(2);
  const auto ids = rendezvous.join_all();
  std::vector<CallResult> got;
  rendezvous.state.get(ids[0], "weights", milliseconds(2500), rendezvous.into(got));
  rendezvous.pass(seconds(2));
  EXPECT_TRUE(got.empty());
  rendezvous.pass(seconds(1));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].error->code(), ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(got[0].error->what(), AllOf(HasSubstr("weights"), HasSubstr("2.5 s")));
}

TEST(RendezvousState, TickReturnsWhenItIsDue) {
  TestRendezvous rendezvous(2);
  const auto ids = rendezvous.join_all();
  EXPECT_EQ(rendezvous.state.tick() - rendezvous.clock.now(), milliseconds(2500));
  std::vector<CallResult> got;
  rendezvous.state.get(ids[0], "key", seconds(1), rendezvous.into(got));
  EXPECT_EQ(rendezvous.state.tick() - rendezvous.clock.now(), seconds(1));
}

TEST(RendezvousState, AppendsAtomically) {
  TestRendezvous rendezvous(2);
  const auto ids = rendezvous.join_all();
  std::vector<CallResult> got;
  rendezvous.state.get(ids[1], "list/1", seconds(5), rendezvous.into(got));
  EXPECT_EQ(rendezvous.state.append(ids[0], "list", "one"), 1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].value, "one");
  EXPECT_EQ(rendezvous.state.append(ids[1], "list", "two"), 2);
  EXPECT_EQ(rendezvous.state.append(ids[0], "other", "a"), 1);
  // What is refused takes no number.
  EXPECT_THROW(rendezvous.state.append(ids[0], "list", std::string(std::size_t{17} << 20, 'x')),
               Error);
  EXPECT_EQ(rendezvous.state.append(ids[0], "list", "three"), 3);
}

TEST(RendezvousState, LossesCarryTheirGeneration) {
  TestRendezvous rendezvous(2);
  const auto ids = rendezvous.join_all();
  rendezvous.state.disconnect(ids[0].id);
  EXPECT_EQ(rendezvous.generations, (std::vector<int>{0}));
}

TEST(RendezvousState, AddsUp) {
  TestRendezvous rendezvous(2);
  const auto ids = rendezvous.join_all();
  EXPECT_EQ(rendezvous.state.add(ids[0], "count", 3), 3);
  EXPECT_EQ(rendezvous.state.add(ids[1], "count", -5), -2);
  rendezvous.state.set(ids[0], "text", "no number");
  EXPECT_THROW(rendezvous.state.add(ids[0], "text", 1), Error);
}

TEST(RendezvousState, BarrierOpensForTheLastAndCanBeUsedOnce) {
  TestRendezvous rendezvous(2);
  const auto ids = rendezvous.join_all();
  std::vector<CallResult> passed;
  rendezvous.state.barrier(ids[0], "end", seconds(5), rendezvous.into(passed));
  EXPECT_TRUE(passed.empty());
  rendezvous.state.barrier(ids[1], "end", seconds(5), rendezvous.into(passed));
  ASSERT_EQ(passed.size(), 2u);
  EXPECT_FALSE(passed[0].error);
  rendezvous.state.barrier(ids[1], "end", seconds(5), rendezvous.into(passed));
  EXPECT_EQ(passed.at(2).error->code(), ErrorCode::kFailedPrecondition);
}

TEST(RendezvousState, BarrierNamesTheMissingMembers) {
  TestRendezvous rendezvous(3);
  const auto ids = rendezvous.join_all();
  std::vector<CallResult> passed;
  rendezvous.state.barrier(ids[1], "end", seconds(2), rendezvous.into(passed));
  rendezvous.pass(seconds(2));
  ASSERT_EQ(passed.size(), 1u);
  EXPECT_THAT(passed[0].error->what(),
              AllOf(HasSubstr("host-0"), HasSubstr("host-2"), Not(HasSubstr("host-1"))));
}

TEST(RendezvousState, LossReleasesAllWaitsAndNamesTheMember) {
  TestRendezvous rendezvous(3);
  const auto ids = rendezvous.join_all();
  std::vector<CallResult> released;
  rendezvous.state.get(ids[0], "key", seconds(60), rendezvous.into(released));
  rendezvous.state.barrier(ids[1], "end", seconds(60), rendezvous.into(released));
  rendezvous.state.disconnect(ids[2]);
  ASSERT_EQ(released.size(), 2u);
  for (const auto& result : released) {
    EXPECT_EQ(result.error->code(), ErrorCode::kUnavailable);
    EXPECT_THAT(result.error->what(), HasSubstr("/job:worker/task:2"));
  }
  for (const int rank : {0, 1}) {
    ASSERT_EQ(rendezvous.listeners[rank]->all<cluster::LostMember>().size(), 1u);
    EXPECT_EQ(rendezvous.listeners[rank]->all<cluster::LostMember>()[0].member, member(2));
  }
  ASSERT_EQ(rendezvous.lost.size(), 1u);
  EXPECT_EQ(rendezvous.lost[0].reason, "its connection was closed");
}

TEST(RendezvousState, GetFailsIfNoOtherMemberIsLeft) {
  TestRendezvous rendezvous(2);
  const auto ids = rendezvous.join_all();
  rendezvous.state.set(ids[1], "there", "value");
  rendezvous.state.leave(ids[1]);
  std::vector<CallResult> results;
  rendezvous.state.get(ids[0], "there", seconds(60), rendezvous.into(results));
  rendezvous.state.get(ids[0], "not there", seconds(60), rendezvous.into(results));
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].value, "value");
  EXPECT_EQ(results[1].error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(results[1].error->what(), HasSubstr("All other members have left; key 'not there'"));
}

TEST(RendezvousState, ReportsALeaveOnce) {
  TestRendezvous rendezvous(3);
  const auto ids = rendezvous.join_all();
  rendezvous.state.leave(ids[2]);
  rendezvous.state.leave(ids[2]);
  rendezvous.state.disconnect(ids[2]);
  rendezvous.state.disconnect(ids[0]);
  rendezvous.state.leave(ids[1]);
  EXPECT_EQ(rendezvous.left, (std::vector{2, 1}));
  EXPECT_EQ(rendezvous.lost.size(), 1u);
}

TEST(RendezvousState, SilentMemberIsLostAndIsNotified) {
  TestRendezvous rendezvous(2);
  const auto ids = rendezvous.join_all();
  for (int second = 0; second < 11; ++second) {
    rendezvous.state.heartbeat(ids[0]);
    rendezvous.pass(seconds(1));
  }
  ASSERT_EQ(rendezvous.lost.size(), 1u);
  EXPECT_EQ(rendezvous.lost[0].member.rank, 1);
  EXPECT_EQ(rendezvous.lost[0].reason, "it has not been heard from for 10 s");
  EXPECT_EQ(rendezvous.listeners[1]->all<cluster::LostMember>().size(), 1u);
  EXPECT_EQ(rendezvous.listeners[1]->endings.size(), 1u);
  EXPECT_THROW(rendezvous.state.set(ids[1], "key", "value"), Error);
  EXPECT_EQ(rendezvous.listeners[0]->all<HeartbeatReply>().size(), 11u);
}

TEST(RendezvousState, AnswerToABeatNamesTheMissingRanks) {
  TestRendezvous rendezvous(3);
  const auto first = rendezvous.join(1);
  rendezvous.state.heartbeat(first);
  rendezvous.join(2);
  rendezvous.state.heartbeat(first);
  rendezvous.join(0);
  rendezvous.state.heartbeat(first);
  const auto replies = rendezvous.listeners[1]->all<HeartbeatReply>();
  ASSERT_EQ(replies.size(), 3u);
  EXPECT_EQ(replies[0].missing, (std::vector<int>{0, 2}));
  EXPECT_EQ(replies[1].missing, (std::vector<int>{0}));
  EXPECT_EQ(replies[2].missing, (std::vector<int>{}));
}

TEST(RendezvousState, AStalledLauncherLosesNoMember) {
  TestRendezvous rendezvous(2);
  rendezvous.join_all();
  rendezvous.clock.advance(seconds(60));
  rendezvous.state.tick();
  EXPECT_TRUE(rendezvous.lost.empty());
}

TEST(RendezvousState, AStalledFirstMemberIsLostItself) {
  TestRendezvous rendezvous(2, /*host_rank=*/0);
  rendezvous.join_all();
  rendezvous.clock.advance(seconds(60));
  rendezvous.state.tick();
  ASSERT_EQ(rendezvous.lost.size(), 1u);
  EXPECT_EQ(rendezvous.lost[0].member.rank, 0);
}

TEST(RendezvousState, LeavingIsNoLossButBarriersEnd) {
  TestRendezvous rendezvous(2);
  const auto ids = rendezvous.join_all();
  std::vector<CallResult> passed;
  rendezvous.state.barrier(ids[0], "end", seconds(60), rendezvous.into(passed));
  rendezvous.state.leave(ids[1]);
  rendezvous.state.disconnect(ids[1]);
  EXPECT_TRUE(rendezvous.lost.empty());
  EXPECT_FALSE(rendezvous.listeners[1]->endings.at(0).error);
  ASSERT_EQ(passed.size(), 1u);
  EXPECT_THAT(passed[0].error->what(), HasSubstr("/job:worker/task:1"));
  rendezvous.state.set(ids[0], "key", "value");  // the store keeps working
}

TEST(RendezvousState, NextGenerationForgetsAndAborts) {
  TestRendezvous rendezvous(2);
  const auto ids = rendezvous.join_all();
  rendezvous.state.set(ids[0], "key", "value");
  std::vector<CallResult> got;
  rendezvous.state.get(ids[1], "other", seconds(60), rendezvous.into(got));
  rendezvous.state.begin_generation(1, 1);
  EXPECT_EQ(got.at(0).error->code(), ErrorCode::kAborted);
  EXPECT_EQ(rendezvous.listeners[0]->end_code(), ErrorCode::kAborted);
  EXPECT_TRUE(rendezvous.lost.empty());
  Hello next = hello(0, 1);
  next.generation = 1;
  const auto listener = std::make_shared<RecordingListener>();
  EXPECT_TRUE(rendezvous.state.join(next, listener));
  EXPECT_EQ(listener->all<AllJoined>().size(), 1u);
  rendezvous.state.get(listener->all<Welcome>()[0].credential, "key", seconds(0),
                       rendezvous.into(got));
  rendezvous.state.tick();
  EXPECT_EQ(got.at(1).error->code(), ErrorCode::kDeadlineExceeded);
  try {
    rendezvous.state.set(ids[0], "key", "value");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kAborted);  // no stranger: one that came too late
  }
  EXPECT_THROW(rendezvous.state.begin_generation(1, 1), Error);
}

TEST(RendezvousState, RefusesLargeValues) {
  TestRendezvous rendezvous(2);
  const auto ids = rendezvous.join_all();
  EXPECT_THROW(rendezvous.state.set(ids[0], std::string(5000, 'k'), ""), Error);
  EXPECT_THROW(rendezvous.state.set(ids[0], "key", std::string((16 << 20) + 1, 'v')), Error);
}

TEST(RendezvousState, IsThreadSafe) {
  constexpr int kThreads = 4;
  TestRendezvous rendezvous(kThreads);
  const auto ids = rendezvous.join_all();
  std::vector<CallResult> results;  // replies come one at a time
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kThreads; ++rank) {
      threads.emplace_back([&, rank] {
        for (int i = 0; i < 50; ++i) {
          rendezvous.state.add(ids[rank], "count", 1);
          rendezvous.state.heartbeat(ids[rank]);
          rendezvous.state.get(ids[rank], "key " + std::to_string((rank + i) % kThreads),
                               seconds(60), rendezvous.into(results));
          rendezvous.state.set(ids[rank], "key " + std::to_string(rank), "value");
          rendezvous.state.barrier(ids[rank], "step " + std::to_string(i), seconds(60),
                                   rendezvous.into(results));
          rendezvous.state.tick();
        }
      });
    }
  }
  EXPECT_EQ(rendezvous.state.add(ids[0], "count", 0), kThreads * 50);
  ASSERT_EQ(results.size(), 2u * kThreads * 50);
  for (const auto& result : results) EXPECT_FALSE(result.error) << result.error->what();
}

}  // namespace
}  // namespace brigade::rpc
