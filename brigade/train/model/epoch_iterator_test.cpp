#include "brigade/train/model/epoch_iterator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "brigade/data/core/cardinality.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/input/synthetic.h"

namespace brigade::train::internal {
namespace {

using input::LabeledBatch;

/// A dataset of unknown size.
class UnknownSize final : public data::Node<LabeledBatch> {
 public:
  explicit UnknownSize(data::NodePtr<LabeledBatch> inner) : inner_(std::move(inner)) {}
  std::unique_ptr<data::IteratorBase<LabeledBatch>> iterator(
      const data::IteratorOptions& options) const override {
    return inner_->iterator(options);
  }
  std::int64_t cardinality() const override { return data::kUnknown; }
  std::string describe() const override { return inner_->describe(); }
  std::uint64_t depth() const override { return inner_->depth(); }

 private:
  data::NodePtr<LabeledBatch> inner_;
};

/// 3 batches of 4, 4 and 2 examples, in another order in each epoch.
data::Dataset<LabeledBatch> three_batches() {
  return input::synthetic(10, {2}, 3).shuffle(10).batch(4);
}

data::Dataset<LabeledBatch> of_unknown_size() {
  return data::Dataset<LabeledBatch>(std::make_shared<UnknownSize>(three_batches().node()));
}

class EpochIteratorTest : public ::testing::TestWithParam<bool> {
 protected:
  EpochIterator iterator() {
    return EpochIterator(strategy_.distribute(GetParam() ? three_batches() : of_unknown_size()));
  }
  static double sum(const EpochIterator::Batch& batch) {
    return (batch[0].input().sum() + batch[1].input().sum()).item<double>();
  }
  distribute::MirroredStrategy strategy_{distribute::cpus(2)};
};
INSTANTIATE_TEST_SUITE_P(SizeIsKnown, EpochIteratorTest, ::testing::Bool());

TEST_P(EpochIteratorTest, KnowsWhetherThereIsAnotherBatch) {
  EpochIterator it = iterator();
  for (int pass = 0; pass < 2; ++pass) {
    int batches = 0;
    for (; it.has_next(); ++batches) ASSERT_TRUE(it.next());
    EXPECT_EQ(batches, 3);
    it.start_next_epoch();
  }
}

TEST_P(EpochIteratorTest, ResumesExactlyWhereItWasSavedDespiteLookahead) {
  EpochIterator whole = iterator();
  for (int before = 0; before < 3; ++before) {
    EpochIterator first = iterator();
    for (int i = 0; i < before; ++i) first.next();
    EXPECT_TRUE(first.has_next());
    first.peek();
    const io::StateTree state = first.save();
    EpochIterator second = iterator();
    second.restore(state);
    const double expected = sum(*whole.next());
    for (EpochIterator* each : {&first, &second}) {
      const auto batch = each->next();
      ASSERT_TRUE(batch) << before;
      EXPECT_EQ(sum(*batch), expected) << before;
    }
    EXPECT_EQ(second.has_next(), before < 2);
  }
}

TEST_P(EpochIteratorTest, PeekDoesNotConsumeTheBatch) {
  EpochIterator it = iterator();
  const double seen = sum(it.peek());
  EXPECT_EQ(sum(*it.next()), seen);
}

// The workers' positions are exchanged only when one is saved.
TEST(EpochIterator, LookingAheadCostsTheWorkersOneCall) {
  std::atomic<int> restored = 0;
  distribute::run_workers({1, 1}, [&](distribute::MultiWorkerMirroredStrategy& strategy) {
    const auto data =
        strategy.distribute_from_function([](const distribute::InputContext& context) {
          return input::synthetic(context.input_pipeline_id == 0 ? 10 : 14, {2}, 3).batch(2);
        });
    const auto& workers = *strategy.workers()->communicator;
    EpochIterator it(data);
    it.next();  // which compares the workers' data
    for (int step = 1; step < 7; ++step) {
      const std::int64_t before = workers.traffic().collectives;
      ASSERT_TRUE(it.has_next());
      EXPECT_EQ(workers.traffic().collectives, before + 1);
      const io::StateTree state = it.save();
      const auto batch = it.next();
      ASSERT_TRUE(batch);
      if (step >= 5) continue;  // a restored iterator knows no batch of a worker that has ended
      EpochIterator again(data);
      again.restore(state);
      ASSERT_TRUE(again.has_next());
      if ((*again.next())[0].input().equal((*batch)[0].input())) ++restored;
    }
    EXPECT_FALSE(it.has_next());
  });
  EXPECT_EQ(restored, 2 * 4);
}

TEST(EpochIterator, AnEmptyDatasetIsRefused) {
  distribute::MirroredStrategy strategy(distribute::cpus(1));
  EpochIterator it(strategy.distribute(three_batches().take(0)));
  EXPECT_EQ(distribute::error_from([&] { it.peek(); }).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::train::internal
