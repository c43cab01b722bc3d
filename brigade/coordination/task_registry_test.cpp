#include "brigade/coordination/task_registry.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"

namespace brigade::coordination {
namespace {

using std::chrono::milliseconds;
using JoinVerdict = TaskRegistry::JoinVerdict;

TaskRegistry::Time after(int ms) {
  return TaskRegistry::Time() + milliseconds(ms);
}

TaskRegistry make_registry() {
  return TaskRegistry({"chief:0", "worker:0", "worker:1"}, milliseconds(100));
}

TEST(TaskRegistry, ATokenProvesWhoCallsAndRenewsTheLease) {
  TaskRegistry tasks = make_registry();
  const auto joined = tasks.join("worker:1", 0, "secret", after(0));
  EXPECT_EQ(joined.verdict, JoinVerdict::kJoined);
  EXPECT_EQ(joined.holder, (Incarnation{"worker:1", 1}));
  EXPECT_EQ(tasks.authenticate("secret", after(90)), joined.holder);
  EXPECT_EQ(tasks.next_expiry(), after(190));
  EXPECT_EQ(tasks.authenticate("guess", after(90)), std::nullopt);
  EXPECT_EQ(tasks.authenticate("", after(90)), std::nullopt);
  EXPECT_EQ(tasks.authenticate("secret", after(190)), std::nullopt) << "too late";
  EXPECT_EQ(tasks.expire(after(190)), std::vector{joined.holder});
  EXPECT_EQ(tasks.authenticate("secret", after(190)), std::nullopt);
}

TEST(TaskRegistry, ASuccessorVoidsTheTokenOfTheLifeBefore) {
  TaskRegistry tasks = make_registry();
  tasks.join("worker:0", 0, "old", after(0));
  EXPECT_EQ(tasks.join("worker:0", 0, "new", after(10)).holder.number, 2);
  EXPECT_EQ(tasks.authenticate("old", after(20)), std::nullopt);
  EXPECT_EQ(tasks.join("worker:0", 1, "again", after(20)).verdict, JoinVerdict::kReplaced);
  tasks.leave("old", after(20));
  EXPECT_TRUE(tasks.authenticate("new", after(20)).has_value());
  EXPECT_EQ(tasks.holders(), (std::vector{Incarnation{"worker:0", 2}}));
}

/// A server that was restarted has no leases; a new incarnation would push again what is applied.
TEST(TaskRegistry, ALifeThatJoinsAgainKeepsItsIncarnation) {
  TaskRegistry before = make_registry();
  before.join("worker:0", 0, "a", after(0));
  before.join("worker:0", 0, "b", after(1));
  TaskRegistry tasks = make_registry();
  tasks.restore(before.save());
  EXPECT_EQ(tasks.authenticate("b", after(2)), std::nullopt);
  EXPECT_EQ(tasks.join("worker:0", 1, "c", after(2)).verdict, JoinVerdict::kReplaced);
  const auto again = tasks.join("worker:0", 2, "d", after(2));
  EXPECT_EQ(again.verdict, JoinVerdict::kJoined);
  EXPECT_EQ(again.holder.number, 2);
  EXPECT_EQ(tasks.join("worker:0", 2, "e", after(3)).holder.number, 2) << "its grant was lost";
  EXPECT_EQ(tasks.authenticate("d", after(4)), std::nullopt);
  EXPECT_TRUE(tasks.authenticate("e", after(4)).has_value());
  EXPECT_EQ(tasks.join("worker:0", 0, "f", after(5)).holder.number, 3);
}

TEST(TaskRegistry, AnotherServerAcceptsTheIncarnationThatTheFirstGave) {
  TaskRegistry other = make_registry();
  EXPECT_EQ(other.join("worker:1", 7, "a", after(0)).holder, (Incarnation{"worker:1", 7}));
  EXPECT_EQ(other.join("worker:1", 6, "b", after(0)).verdict, JoinVerdict::kReplaced);
  EXPECT_TRUE(other.authenticate("a", after(1)).has_value()) << "a refused join changes nothing";
}

TEST(TaskRegistry, TheJobIsOverWhenTheChiefHasFinishedAndNobodyTrains) {
  TaskRegistry tasks = make_registry();
  EXPECT_FALSE(tasks.is_finished(after(0)));
  tasks.join("chief:0", 0, "c", after(0));
  tasks.join("worker:0", 0, "w", after(0));
  tasks.leave("w", after(0));
  EXPECT_TRUE(tasks.has_finished("worker:0"));
  EXPECT_FALSE(tasks.is_finished(after(0)));
  tasks.join("worker:1", 0, "v", after(0));
  tasks.leave("c", after(0));
  EXPECT_EQ(tasks.authenticate("c", after(1)), std::nullopt);
  EXPECT_FALSE(tasks.is_finished(after(1)));
  tasks.leave("v", after(2));
  EXPECT_TRUE(tasks.is_finished(after(2))) << "all have left";
  tasks.join("chief:0", 0, "d", after(3));
  EXPECT_FALSE(tasks.has_finished("chief:0"));
  tasks.expire(after(500));
  EXPECT_FALSE(tasks.is_finished(after(5000))) << "a chief that was lost has not finished";
}

TEST(TaskRegistry, ATaskThatWasLostMayReturnBeforeTheJobIsOver) {
  TaskRegistry tasks = make_registry();
  for (const char* task : {"chief:0", "worker:0", "worker:1"}) tasks.join(task, 0, task, after(0));
  tasks.leave("chief:0", after(1));
  tasks.leave("worker:0", after(1));
  EXPECT_EQ(tasks.expire(after(100)), (std::vector{Incarnation{"worker:1", 1}}));
  EXPECT_FALSE(tasks.is_finished(after(399))) << "it was only slow";
  EXPECT_TRUE(tasks.is_finished(after(400))) << "nobody waits for it forever";
  tasks.join("worker:1", 1, "again", after(350));
  EXPECT_FALSE(tasks.is_finished(after(440))) << "it trains";
  tasks.leave("again", after(441));
  EXPECT_TRUE(tasks.is_finished(after(441)));
}

TEST(TaskRegistry, ATaskMayJoinForATermAfterTheChiefHasLeft) {
  TaskRegistry tasks = make_registry();
  tasks.join("chief:0", 0, "c", after(0));
  tasks.leave("c", after(50));
  EXPECT_FALSE(tasks.is_finished(after(149))) << "the workers have joined other servers alone";
  EXPECT_TRUE(tasks.is_finished(after(150)));
}

TEST(TaskRegistry, KnowsAfterARestartWhoHadFinished) {
  TaskRegistry tasks = make_registry();
  for (const char* task : {"chief:0", "worker:0", "worker:1"})
    tasks.restore_finished(task, after(0));
  EXPECT_FALSE(tasks.is_finished(after(299))) << "the next run of the job may begin";
  EXPECT_TRUE(tasks.is_finished(after(300)));
  tasks.join("chief:0", 2, "c", after(10));
  EXPECT_FALSE(tasks.is_finished(after(300)));
  EXPECT_TRUE(tasks.has_finished("worker:0"));
  EXPECT_THROW(tasks.restore_finished("ps:0", after(0)), Error);
}

TEST(TaskRegistry, RefusesStrangersAndBadCalls) {
  EXPECT_THROW(TaskRegistry({}, milliseconds(100)), Error);
  EXPECT_THROW(TaskRegistry({"worker:0", "worker:0"}, milliseconds(100)), Error);
  EXPECT_THROW(TaskRegistry({"worker:0"}, milliseconds(0)), Error);
  TaskRegistry tasks = make_registry();
  EXPECT_EQ(tasks.join("worker:2", 0, "x", after(0)).verdict, JoinVerdict::kUnknownTask);
  EXPECT_THROW(tasks.join("worker:0", -1, "x", after(0)), Error);
  EXPECT_THROW(tasks.join("worker:0", 0, "", after(0)), Error);
  tasks.join("worker:0", 0, "x", after(0));
  EXPECT_THROW(tasks.join("worker:1", 0, "x", after(0)), Error) << "another task's token";
  EXPECT_EQ(tasks.holders(), (std::vector{Incarnation{"worker:0", 1}}));
  EXPECT_EQ(tasks.rank("worker:1"), 2);
  EXPECT_THROW(tasks.rank("ps:0"), Error);
}

}  // namespace
}  // namespace brigade::coordination
