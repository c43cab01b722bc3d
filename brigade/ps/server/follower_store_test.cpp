#include "brigade/ps/server/follower_store.h"

#include <gtest/gtest.h>

#include "brigade/io/testing/memory_file_system.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/store/record_feed.h"
#include "brigade/ps/testing/store_samples.h"

namespace brigade::ps {
namespace {

using testing::expect_same_state;
using testing::soon;
using Taken = FollowerStore::Taken;

const FollowSource kSource = {.life = "acting", .epoch = 3};

/// A store that is followed, without its server.
class FollowerStoreTest : public ::testing::Test {
 protected:
  FollowerStoreTest() {
    ParameterStoreOptions options = testing::store_options();
    options.feed = feed_;
    acting_ = std::make_unique<ParameterStore>(std::make_shared<io::MemoryFileSystem>(), options);
    acting_->create(testing::model(), optim::Sgd{.learning_rate = 1}.rule(), testing::async_job(),
                    soon());
    acting_->admit(0, 1, soon());
    acting_->set_ready(soon());
    follower_ = open();
  }

  std::unique_ptr<FollowerStore> open() const {
    return std::make_unique<FollowerStore>(files_,
                                           FollowerStoreOptions{.store = testing::store_options()});
  }
  FollowRequest request() const {
    FollowRequest request;
    follower_->describe(request);
    return request;
  }
  /// As the process that acts would answer.
  Taken call(const FollowSource& source = kSource) {
    const FollowRequest asked = request();
    FollowReply reply;
    if (asked.part) {
      if (*asked.part == 0)
        state_.emplace(acting_->moment([&](std::int64_t covered) { feed_->begin(covered); }), 30);
      reply.part = state_->part(*asked.part);
    } else if (asked.source != source) {
      reply.must_fill = true;
    } else {
      reply.is_complete = feed_->acknowledge(asked.applied).value();
      for (const io::BytePieces& each : feed_->take(asked.applied, 1 << 20, RecordFeed::Time()))
        reply.records.push_back(io::shared_bytes(each.joined()));
    }
    return follower_->take(source, std::move(reply));
  }
  void fill() {
    Taken taken = Taken::kNothing;
    for (int calls = 0; taken != Taken::kState && calls < 100; ++calls) taken = call();
    ASSERT_EQ(taken, Taken::kState);
    follower_->fill();
  }

  std::shared_ptr<RecordFeed> feed_ = std::make_shared<RecordFeed>(1 << 20);
  std::unique_ptr<ParameterStore> acting_;
  std::optional<StateTransfer> state_;
  std::shared_ptr<io::FileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  std::unique_ptr<FollowerStore> follower_;
};

TEST_F(FollowerStoreTest, IsFilledAndFollows) {
  EXPECT_EQ(follower_->epoch(), std::nullopt);
  EXPECT_EQ(request().source, FollowSource{});
  fill();
  EXPECT_EQ(request().source, kSource);
  expect_same_state(*follower_->store(), *acting_);
  acting_->push({.worker = 0, .incarnation = 1, .number = 1}, testing::gradients(1), soon());
  EXPECT_EQ(call(), Taken::kNothing) << "it gets what was acknowledged without it";
  EXPECT_EQ(call(), Taken::kEverything);
  EXPECT_EQ(request().applied, acting_->last_record());
  expect_same_state(*follower_->store(), *acting_);
}

TEST_F(FollowerStoreTest, AFolderThatWasBeingFilledIsEmptied) {
  follower_->write_epoch(2);
  EXPECT_EQ(follower_->epoch(), 2);
  fill();
  EXPECT_EQ(follower_->epoch(), 0);
  EXPECT_EQ(open()->epoch(), 0) << "it is not known to be complete";
  EXPECT_FALSE(open()->store()->is_created());
}

TEST_F(FollowerStoreTest, ACompleteFolderIsOpenedAgain) {
  fill();
  follower_->write_epoch(3);
  follower_.reset();
  follower_ = open();
  EXPECT_EQ(follower_->epoch(), 3);
  expect_same_state(*follower_->store(), *acting_);
  EXPECT_EQ(request().source, FollowSource{}) << "which process its records came from is not known";
}

TEST_F(FollowerStoreTest, AnotherOneThatActsFillsItAnew) {
  fill();
  const FollowSource other = {.life = "another", .epoch = 4};
  EXPECT_EQ(call(other), Taken::kNothing);
  EXPECT_EQ(request().part, 0);
}

TEST_F(FollowerStoreTest, GivesItsStoreAwayAndTakesItBack) {
  fill();
  OpenStore store = follower_->release();
  EXPECT_EQ(follower_->store(), nullptr);
  EXPECT_EQ(request().applied, 0);
  store.store->push({.worker = 0, .incarnation = 1, .number = 1}, testing::gradients(1), soon());
  follower_->adopt(std::move(store));
  EXPECT_EQ(follower_->store()->step(), 1);
  EXPECT_EQ(request().source, FollowSource{}) << "it has changes of its own";
}

}  // namespace
}  // namespace brigade::ps
