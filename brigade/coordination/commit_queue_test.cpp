#include "brigade/coordination/commit_queue.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"

namespace brigade::coordination {
namespace {

TEST(CommitQueue, OneSyncCommitsAllRecordsThatWereWrittenBeforeIt) {
  CommitQueue queue;
  EXPECT_EQ(queue.append(), 1);
  EXPECT_EQ(queue.append(), 2);
  EXPECT_EQ(queue.begin_sync(), 2);
  EXPECT_EQ(queue.append(), 3) << "while the sync runs";
  EXPECT_FALSE(queue.is_committed(1));
  queue.finish_sync();
  EXPECT_TRUE(queue.is_committed(2));
  EXPECT_FALSE(queue.is_committed(3)) << "it was written after the sync began";
  EXPECT_EQ(queue.begin_sync(), 3);
  queue.finish_sync();
  EXPECT_EQ(queue.committed(), 3);
}

TEST(CommitQueue, OneSyncRunsAtATimeAndNoneWithoutRecords) {
  CommitQueue queue;
  EXPECT_EQ(queue.begin_sync(), std::nullopt);
  queue.append();
  ASSERT_TRUE(queue.begin_sync());
  queue.append();
  EXPECT_EQ(queue.begin_sync(), std::nullopt);
  EXPECT_THROW(CommitQueue().finish_sync(), Error);
}

TEST(CommitQueue, APostponedSyncCommitsNothingAndTheNextOneCommitsItsRecords) {
  CommitQueue queue;
  queue.append();
  ASSERT_EQ(queue.begin_sync(), 1);
  queue.postpone_sync();
  EXPECT_FALSE(queue.is_committed(1));
  queue.append();
  EXPECT_EQ(queue.begin_sync(), 2);
  queue.finish_sync();
  EXPECT_TRUE(queue.is_committed(1));
  EXPECT_THROW(queue.postpone_sync(), Error);
}

TEST(CommitQueue, ContinuesAfterTheRecordsOfAnEarlierRun) {
  CommitQueue queue(7);
  EXPECT_TRUE(queue.is_committed(7));
  EXPECT_EQ(queue.append(), 8);
  EXPECT_THROW(CommitQueue(-1), Error);
}

TEST(CommitQueue, AFailedSyncIsFinal) {
  CommitQueue queue;
  queue.append();
  queue.begin_sync();
  queue.finish_sync();
  queue.append();
  queue.begin_sync();
  queue.fail_sync();
  EXPECT_TRUE(queue.has_failed());
  EXPECT_EQ(queue.begin_sync(), std::nullopt) << "a second fsync could lie";
  try {
    queue.append();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  }
  EXPECT_EQ(queue.committed(), 1);
}

}  // namespace
}  // namespace brigade::coordination
