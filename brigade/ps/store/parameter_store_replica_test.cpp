#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "brigade/base/testing/error_code.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/optim/adam.h"
#include "brigade/ps/store/parameter_store.h"
#include "brigade/ps/testing/store_samples.h"

/// A store and its replica, without what is between them.
namespace brigade::ps {
namespace {

using coordination::PushId;
using coordination::StepDecision;
using testing::expect_same_state;
using testing::gradients;
using testing::soon;

constexpr std::uint64_t kFeedBytes = 1 << 20;

/// A store whose records go to a replica, which was filled with its state.
struct StoreAndReplica {
  explicit StoreAndReplica(const io::StateTree& job) {
    store = std::make_unique<ParameterStore>(std::make_shared<io::MemoryFileSystem>(), options());
    store->admit(1, 1, soon());
    store->create(testing::model(), optim::Adam{.learning_rate = 0.1}.rule(), job, soon());
  }

  ParameterStoreOptions options() const {
    ParameterStoreOptions options = testing::store_options();
    options.feed = feed;
    return options;
  }

  void fill() {
    const StoreMoment moment = store->moment([&](std::int64_t covered) { feed->begin(covered); });
    replica.reset();
    files->create_directories("/server");
    clear_store(*files, "/server");
    install_store(files, "/server", moment);
    reopen();
    ASSERT_EQ(replica->last_record(), moment.covered);
  }
  void reopen() {
    replica.reset();
    replica = std::make_unique<ParameterStore>(files, testing::store_options());
  }
  /// Sends the records that the replica lacks.
  void send() {
    std::vector<io::SharedBytes> records;
    for (const io::BytePieces& each : feed->take(replica->last_record(), kFeedBytes, soon()))
      records.push_back(io::shared_bytes(each.joined()));
    replica->follow(replica->last_record() + 1, records);
    replica->wait_committed(replica->last_record(), soon());
    ASSERT_EQ(feed->acknowledge(replica->last_record()), true);
  }

  std::shared_ptr<RecordFeed> feed = std::make_shared<RecordFeed>(kFeedBytes);
  std::unique_ptr<ParameterStore> store;
  std::shared_ptr<io::FileSystem> files = std::make_shared<io::MemoryFileSystem>();
  std::unique_ptr<ParameterStore> replica;
};

TEST(ParameterStoreReplica, HasTheBitsOfTheStoreInMemoryAndOnItsDisk) {
  StoreAndReplica pair(testing::async_job());
  pair.store->set_ready(soon());
  pair.store->push({.worker = 1, .incarnation = 1, .number = 1}, gradients(0.3), soon());
  pair.fill();
  expect_same_state(*pair.replica, *pair.store);
  for (std::int64_t number = 2; number <= 5; ++number)
    pair.store->push({.worker = 1, .incarnation = 1, .number = number},
                     gradients(0.1 * static_cast<double>(number)), soon());
  pair.store->set_learning_rate(0.01, soon());
  pair.store->finish(1, 1, soon());
  pair.send();
  expect_same_state(*pair.replica, *pair.store);
  pair.reopen();
  expect_same_state(*pair.replica, *pair.store);
}

TEST(ParameterStoreReplica, ContinuesAsTheStoreWould) {
  StoreAndReplica pair(testing::async_job());
  pair.store->set_ready(soon());
  pair.fill();
  const PushId first{.worker = 1, .incarnation = 1, .number = 1};
  auto pushed =
      std::async(std::launch::async, [&] { return pair.store->push(first, gradients(1), soon()); });
  while (pair.store->last_record() == pair.replica->last_record()) std::this_thread::yield();
  pair.send();
  EXPECT_EQ(pushed.get(), coordination::PushVerdict::kApply);
  EXPECT_EQ(pair.replica->push(first, gradients(1), soon()), coordination::PushVerdict::kDuplicate);
  const PushId second{.worker = 1, .incarnation = 1, .number = 2};
  pair.feed->drop();
  pair.store->push(second, gradients(2), soon());
  EXPECT_EQ(pair.replica->push(second, gradients(2), soon()), coordination::PushVerdict::kApply);
  expect_same_state(*pair.replica, *pair.store);
  pair.replica->snapshot();
  pair.reopen();
  expect_same_state(*pair.replica, *pair.store);
}

TEST(ParameterStoreReplica, MakesTheDecisionsOfSynchronousTraining) {
  StoreAndReplica pair(testing::sync_job(2, 2));
  pair.store->admit(0, 1, soon());
  pair.store->set_ready(soon());
  pair.store->offer({.worker = 0, .incarnation = 1, .number = 1}, 0, 0, gradients(0.7), soon());
  pair.fill();
  pair.store->offer({.worker = 1, .incarnation = 1, .number = 1}, 0, 0, gradients(0.2), soon());
  const StepDecision decision{.step = 0, .contributions = {{0, 0}, {1, 0}}, .learning_rate = 0.5};
  pair.store->apply(decision, soon());
  pair.send();
  EXPECT_EQ(pair.replica->last_decision(), decision);
  expect_same_state(*pair.replica, *pair.store);
  pair.replica->apply(decision, soon());
  expect_same_state(*pair.replica, *pair.store);
}

TEST(ParameterStoreReplica, MayBeFilledBeforeAnythingWasCreated) {
  StoreAndReplica pair(testing::async_job());
  pair.store =
      std::make_unique<ParameterStore>(std::make_shared<io::MemoryFileSystem>(), pair.options());
  pair.fill();
  EXPECT_FALSE(pair.replica->is_created());
  pair.store->admit(2, 3, soon());
  pair.fill();
  EXPECT_EQ(pair.replica->incarnation(2), 3);
  EXPECT_FALSE(pair.replica->is_created());
  pair.store->create(testing::model(), optim::Adam{}.rule(), testing::async_job(), soon());
  pair.send();
  EXPECT_TRUE(pair.replica->is_created());
  expect_same_state(*pair.replica, *pair.store);
}

TEST(ParameterStoreReplica, RefusesRecordsThatAreNotTheNext) {
  StoreAndReplica pair(testing::async_job());
  pair.fill();
  const std::vector<io::SharedBytes> records = {io::shared_bytes("any")};
  EXPECT_EQ(base::testing::code_of(
                [&] { pair.replica->follow(pair.replica->last_record() + 2, records); }),
            ErrorCode::kDataLoss);
  expect_same_state(*pair.replica, *pair.store);
}

}  // namespace
}  // namespace brigade::ps
