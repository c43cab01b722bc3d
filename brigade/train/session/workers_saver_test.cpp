#include "brigade/train/session/workers_saver.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/cluster/testing/in_memory_membership.h"
#include "brigade/distribute/testing/fixtures.h"

namespace brigade::train {
namespace {

using std::chrono::milliseconds;

constexpr auto kPlenty = std::chrono::seconds(60);

struct ExchangePair {
  explicit ExchangePair(milliseconds timeout = kPlenty)
      : memberships(cluster::testing::make_in_memory_memberships(2)),
        chief(make_shard_exchange(memberships[0], 1, timeout)),
        other(make_shard_exchange(memberships[1], 1, timeout)) {}
  std::vector<std::shared_ptr<cluster::Membership>> memberships;
  std::shared_ptr<checkpoint::ShardExchange> chief, other;
};

checkpoint::ShardExchange::Predicate equals(const std::string& wanted) {
  return [wanted](const std::string& text) { return text == wanted; };
}

TEST(ShardExchange, NamesItsProcesses) {
  const ExchangePair pair;
  EXPECT_EQ(pair.other->rank(), 1);
  EXPECT_EQ(pair.other->count(), 2);
  EXPECT_EQ(pair.chief->name(1), "/job:worker/task:1");
}

TEST(ShardExchange, WaitReturnsTheExpectedMessage) {
  const ExchangePair pair;
  pair.chief->post("first");
  std::thread reader([&] { EXPECT_EQ(pair.other->wait_for(0, equals("second")), "second"); });
  EXPECT_EQ(pair.other->wait_for(0, equals("first")), "first");
  pair.chief->post("second");
  reader.join();
  std::thread early([&] { EXPECT_EQ(pair.chief->wait_for(1, equals("mine")), "mine"); });
  pair.other->post("mine");
  early.join();
}

TEST(ShardExchange, GroupsAreSeparate) {
  const ExchangePair pair(milliseconds(5));
  const auto elsewhere = make_shard_exchange(pair.memberships[0], 2, kPlenty);
  elsewhere->post("here");
  EXPECT_EQ(distribute::error_from([&] { pair.other->wait_for(0, equals("here")); }).code(),
            ErrorCode::kDeadlineExceeded);
}

TEST(ShardExchange, TimeoutNamesTheMissingProcess) {
  const ExchangePair pair(milliseconds(5));
  for (int i = 0; i < 2; ++i) {  // before the first text, and with one that is not wanted
    const Error error =
        distribute::error_from([&] { pair.chief->wait_for(1, equals("something")); });
    EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
    EXPECT_TRUE(distribute::mentions(error, "/job:worker/task:1")) << error.what();
    pair.other->post("other");
  }
}

TEST(ShardExchange, LossOfAMemberEndsAWait) {
  for (const bool has_text : {false, true}) {
    const ExchangePair pair;
    if (has_text) pair.other->post("old");
    std::thread waiter([&] {
      const Error error = distribute::error_from([&] { pair.chief->wait_for(1, equals("new")); });
      EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
      EXPECT_TRUE(distribute::mentions(error, "/job:worker/task:1")) << error.what();
    });
    cluster::testing::lose(*pair.memberships[0], 1, "it was killed");
    waiter.join();
  }
}

}  // namespace
}  // namespace brigade::train
