#include "brigade/ps/store/record_feed.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

#include "brigade/base/error.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/concurrency/testing/waiting.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using concurrency::testing::kLong;
using concurrency::testing::kShort;

constexpr std::uint64_t kFeedLimit = 1 << 20;

RecordFeed::Time feed_deadline() {
  return std::chrono::steady_clock::now() + kLong;
}
std::vector<std::string> fed_after(RecordFeed& feed, std::int64_t after,
                                   std::uint64_t bytes = kFeedLimit) {
  std::vector<std::string> texts;
  for (const io::BytePieces& each : feed.take(after, bytes, RecordFeed::Time()))
    texts.push_back(each.joined());
  return texts;
}

TEST(RecordFeed, HasTheRecordsSinceTheReplicaBegan) {
  RecordFeed feed(kFeedLimit);
  feed.append(1, "before");
  EXPECT_FALSE(feed.acknowledge(1)) << "there is no replica";
  feed.begin(1);
  feed.append(2, "two");
  feed.append(3, "three");
  EXPECT_EQ(fed_after(feed, 1), (std::vector<std::string>{"two", "three"}));
  EXPECT_EQ(fed_after(feed, 1, 1), std::vector<std::string>{"two"}) << "at least one";
  EXPECT_EQ(fed_after(feed, 2), std::vector<std::string>{"three"});
  EXPECT_EQ(fed_after(feed, 3), std::vector<std::string>{});
  EXPECT_EQ(feed.acknowledge(2), false);
  EXPECT_EQ(code_of([&] { fed_after(feed, 1); }), ErrorCode::kInvalidArgument) << "it had that";
  EXPECT_EQ(feed.acknowledge(3), true);
  EXPECT_EQ(feed.acknowledge(2), std::nullopt) << "it has lost one, and starts over";
  EXPECT_EQ(code_of([&] { feed.acknowledge(4); }), ErrorCode::kInvalidArgument);
}

TEST(RecordFeed, ARecordWaitsForACompleteReplica) {
  RecordFeed feed(kFeedLimit);
  feed.begin(0);
  feed.wait_replicated(0, feed_deadline());
  ASSERT_EQ(feed.acknowledge(0), true);
  feed.append(1, "one");
  EXPECT_EQ(code_of([&] { feed.wait_replicated(1, RecordFeed::Time()); }),
            ErrorCode::kDeadlineExceeded);
  auto waiting = std::async(std::launch::async, [&] { feed.wait_replicated(1, feed_deadline()); });
  EXPECT_EQ(waiting.wait_for(kShort), std::future_status::timeout);
  EXPECT_EQ(feed.acknowledge(1), true);
  ASSERT_EQ(waiting.wait_for(kLong), std::future_status::ready);
  waiting.get();
}

TEST(RecordFeed, ARecordDoesNotWaitForAReplicaThatIsGone) {
  RecordFeed feed(kFeedLimit);
  feed.begin(0);
  feed.acknowledge(0);
  feed.append(1, "one");
  auto waiting = std::async(std::launch::async, [&] { feed.wait_replicated(1, feed_deadline()); });
  feed.drop();
  ASSERT_EQ(waiting.wait_for(kLong), std::future_status::ready);
  waiting.get();
  EXPECT_FALSE(feed.is_required());
}

TEST(RecordFeed, WhoWaitsIsInterruptedWhenTheServerNoLongerActs) {
  RecordFeed feed(kFeedLimit);
  feed.begin(0);
  feed.acknowledge(0);
  feed.append(1, "one");
  auto waiting = std::async(std::launch::async, [&] {
    return code_of([&] { feed.wait_replicated(1, feed_deadline()); });
  });
  feed.interrupt();
  ASSERT_EQ(waiting.wait_for(kLong), std::future_status::ready);
  EXPECT_EQ(waiting.get(), ErrorCode::kUnavailable);
  feed.resume();
  feed.acknowledge(1);
  feed.wait_replicated(1, feed_deadline());
}

TEST(RecordFeed, AReplicaThatIsTooSlowBeginsAnew) {
  RecordFeed feed(10);
  feed.begin(0);
  for (std::int64_t number = 1; number <= 100; ++number) feed.append(number, "long");
  EXPECT_EQ(fed_after(feed, 0), std::vector<std::string>{});
  EXPECT_FALSE(feed.acknowledge(100));
  EXPECT_TRUE(feed.may_acknowledge(100));
  feed.begin(100);
  EXPECT_EQ(feed.acknowledge(100), true);
}

TEST(RecordFeed, WaitsForARecord) {
  RecordFeed feed(kFeedLimit);
  feed.begin(0);
  auto waiting =
      std::async(std::launch::async, [&] { return feed.take(0, kFeedLimit, feed_deadline()); });
  EXPECT_EQ(waiting.wait_for(kShort), std::future_status::timeout);
  feed.append(1, "one");
  ASSERT_EQ(waiting.wait_for(kLong), std::future_status::ready);
  EXPECT_EQ(waiting.get().size(), 1u);
}

TEST(RecordFeed, AWaitForARecordIsInterruptedWhenTheServerNoLongerActs) {
  RecordFeed feed(kFeedLimit);
  feed.begin(0);
  auto waiting =
      std::async(std::launch::async, [&] { return feed.take(0, kFeedLimit, feed_deadline()); });
  EXPECT_EQ(waiting.wait_for(kShort), std::future_status::timeout);
  feed.interrupt();
  ASSERT_EQ(waiting.wait_for(kLong), std::future_status::ready);
  EXPECT_TRUE(waiting.get().empty());
}

}  // namespace
}  // namespace brigade::ps
