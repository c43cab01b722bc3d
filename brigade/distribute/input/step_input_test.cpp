#include "brigade/distribute/input/step_input.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <string>

#include "brigade/concurrency/signal.h"
#include "brigade/concurrency/testing/waiting.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/input/tensor_slices.h"

namespace brigade::distribute {
namespace {

using Numbers = std::vector<std::int64_t>;
using StepBatches = std::vector<Numbers>;  // [replica]

constexpr std::chrono::seconds kLong(30);         // a test that waits this long has failed
constexpr std::chrono::milliseconds kMoment(20);  // gives a wrong implementation time to continue

/// The numbers from `begin` up to `end` in batches; the number `broken` cannot be read. `num_read`
/// is raised for each number read.
data::Dataset<at::Tensor> batches_of(std::int64_t begin, std::int64_t end, std::int64_t size,
                                     std::int64_t broken = -1,
                                     std::shared_ptr<concurrency::Signal> num_read = nullptr) {
  return input::from_tensor_slices(at::arange(begin, end))
      .map([broken, num_read](const at::Tensor& number) {
        if (num_read) num_read->raise();
        check_argument(number.item<std::int64_t>() != broken, "broken");
        return number;
      })
      .batch(size);
}

DistributedInput input_of(const std::vector<data::Dataset<at::Tensor>>& datasets, int replicas,
                          BatchKind kind) {
  DistributedInput input{
      .ops = kBatchOps<at::Tensor>,
      .devices = std::vector<c10::Device>(static_cast<std::size_t>(replicas), c10::kCPU),
      .kind = kind,
      .layout = with_replicas({}, replicas)};
  for (const auto& dataset : datasets)
    input.datasets.push_back(std::make_shared<AnyNode<at::Tensor>>(dataset.node()));
  return input;
}

StepInput input_at(const DistributedInput& input, const io::StateTree& state) {
  StepInput again(input, {});
  again.restore(state);
  return again;
}

StepBatches batches_in(const PerReplica<std::any>& step) {
  StepBatches batches;
  for (const std::any& own : step.values()) {
    const at::Tensor values = std::any_cast<const at::Tensor&>(own).contiguous();
    const auto* first = values.const_data_ptr<std::int64_t>();
    batches.emplace_back(first, first + values.numel());
  }
  return batches;
}
/// The batches of the next step; empty at the end.
StepBatches next_of(StepInput& input) {
  const auto step = input.next();
  return step ? batches_in(*step) : StepBatches();
}
/// The batches of all steps to the end; {{-1}} for a step that fails.
std::vector<StepBatches> rest_of(StepInput& input) {
  std::vector<StepBatches> all;
  for (;;) {
    try {
      all.push_back(next_of(input));
    } catch (const Error&) {
      all.push_back({{-1}});
    }
    if (all.back().empty()) break;
  }
  all.pop_back();
  return all;
}

TEST(StepInput, ABatchIsSplitAmongAllReplicasOfTheJob) {
  auto input = input_of({batches_of(0, 7, 4)}, 2, BatchKind::kGlobal);
  input.layout.replicas = {.first = 1, .local = 2, .total = 3};
  StepInput steps(input, {});
  const auto first = steps.next();
  EXPECT_EQ(first->examples()->global, 4);
  EXPECT_EQ(first->examples()->local, Numbers({1, 1}));
  EXPECT_EQ(batches_in(*first), (StepBatches{{2}, {3}}));
  EXPECT_EQ(next_of(steps), (StepBatches{{5}, {6}}));
  EXPECT_FALSE(steps.next().has_value());
}

// In relaxed order the first number could not come first: it waits until the fourth was made.
TEST(StepInput, WorkersThatSplitTheSameBatchesKeepTheOrder) {
  const auto fourth_is_made = std::make_shared<std::promise<void>>();
  const std::shared_future<void> made(fourth_is_made->get_future());
  const auto batches = input::from_tensor_slices(at::arange(4))
                           .map(
                               [=](const at::Tensor& number) {
                                 if (number.item<std::int64_t>() == 3) fourth_is_made->set_value();
                                 if (number.item<std::int64_t>() == 0)
                                   made.wait_for(concurrency::testing::kLong);
                                 return number;
                               },
                               {.parallelism = 4, .order = data::Order::kRelaxed})
                           .batch(2);
  auto input = input_of({batches}, 1, BatchKind::kGlobal);
  input.layout = {.replicas = {.first = 1, .local = 1, .total = 2}, .num_workers = 2, .worker = 1};
  StepInput steps(input, {});
  EXPECT_EQ(next_of(steps), (StepBatches{{1}}));
  EXPECT_EQ(next_of(steps), (StepBatches{{3}}));
}

TEST(StepInput, ReplicasTakeBatchesInRotationUntilTheDataEnds) {
  StepInput steps(input_of({batches_of(0, 5, 2)}, 2, BatchKind::kPerReplica), {});
  EXPECT_EQ(next_of(steps), (StepBatches{{0, 1}, {2, 3}}));
  const auto last = steps.next();
  EXPECT_EQ(batches_in(*last), (StepBatches{{4}, {}}));
  EXPECT_EQ(last->examples()->local, Numbers({1, 0}));
  EXPECT_FALSE(steps.next().has_value());
}

TEST(StepInput, EachReplicaMayHaveItsOwnData) {
  const auto input =
      input_of({batches_of(0, 2, 2), batches_of(10, 15, 2)}, 2, BatchKind::kPerReplica);
  StepInput steps(input, {});
  EXPECT_EQ(next_of(steps), (StepBatches{{0, 1}, {10, 11}}));
  auto again = input_at(input, steps.save());
  EXPECT_EQ(next_of(again), (StepBatches{{}, {12, 13}}));
  EXPECT_EQ(next_of(again), (StepBatches{{}, {14}}));
  EXPECT_FALSE(again.next().has_value());
}

TEST(StepInput, ABrokenBatchIsSkipped) {
  const auto input = input_of({batches_of(0, 8, 2, /*broken=*/3)}, 2, BatchKind::kGlobal);
  StepInput steps(input, {});
  next_of(steps);
  EXPECT_THROW(steps.next(), Error);
  auto again = input_at(input, steps.save());
  EXPECT_EQ(next_of(again), (StepBatches{{4}, {5}}));
  EXPECT_EQ(next_of(steps), (StepBatches{{4}, {5}}));
}

TEST(StepInput, ABrokenBatchLosesNoOtherBatchOfItsStep) {
  const auto input = input_of({batches_of(0, 8, 2, /*broken=*/3)}, 2, BatchKind::kPerReplica);
  StepInput steps(input, {});
  EXPECT_THROW(steps.next(), Error);
  auto again = input_at(input, steps.save());
  EXPECT_THROW(again.next(), Error) << "before the batches that no step has taken yet";
  EXPECT_EQ(next_of(steps), (StepBatches{{0, 1}, {4, 5}}));
  EXPECT_EQ(next_of(again), (StepBatches{{0, 1}, {4, 5}}));
  EXPECT_EQ(next_of(steps), (StepBatches{{6, 7}, {}}));
}

TEST(StepInput, ARefusedPositionChangesNothing) {
  const auto two =
      input_of({batches_of(0, 6, 2), batches_of(10, 16, 2)}, 2, BatchKind::kPerReplica);
  StepInput steps(two, {});
  steps.next();
  const StepInput one(input_of({batches_of(0, 6, 2)}, 2, BatchKind::kPerReplica), {});
  const Error error = error_from([&] { steps.restore(one.save()); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "1 pipelines")) << error.what();
  io::StateTree mixed = io::StateTree::dict();
  mixed["replicas"] = io::StateTree::list();
  mixed["replicas"].push_back(data::Iterator<std::any>(two.datasets[0], {}).save());
  mixed["replicas"].push_back(io::StateTree(3));
  EXPECT_THROW(steps.restore(mixed), Error);
  EXPECT_EQ(next_of(steps), (StepBatches{{2, 3}, {12, 13}}));
}

TEST(StepInput, AFunctionIsPartOfThePosition) {
  const auto plain = input_of({batches_of(0, 8, 2)}, 2, BatchKind::kGlobal);
  auto mapped = plain;
  mapped.function = [](const std::any& own, ReplicaMapContext& context) {
    return std::any(std::any_cast<at::Tensor>(own) * 10 + static_cast<std::int64_t>(context.step));
  };
  StepInput steps(mapped, {});
  EXPECT_EQ(next_of(steps), (StepBatches{{0}, {10}}));
  auto again = input_at(mapped, steps.save());
  EXPECT_EQ(next_of(again), (StepBatches{{21}, {31}})) << "step 1";
  StepInput without(plain, {});
  EXPECT_TRUE(mentions(error_from([&] { without.restore(steps.save()); }), "map_on_replica"));
  EXPECT_TRUE(mentions(error_from([&] { steps.restore(without.save()); }), "map_on_replica"));
  steps.start_next_epoch();
  EXPECT_EQ(next_of(steps), (StepBatches{{0}, {10}}));
}

// Prefetching.

/// Ten numbers in batches of 2 for two replicas.
DistributedInput input_ahead(int ahead, std::int64_t broken = -1,
                             std::shared_ptr<concurrency::Signal> num_read = nullptr) {
  auto input = input_of({batches_of(0, 10, 2, broken, std::move(num_read))}, 2, BatchKind::kGlobal);
  input.options.per_replica_buffer_size = ahead;
  return input;
}

TEST(StepInput, TheNumberOfPrefetchedStepsDoesNotChangeTheBatches) {
  StepInput plain(input_ahead(0), {});
  const auto expected = rest_of(plain);
  EXPECT_EQ(expected,
            (std::vector<StepBatches>{{{0}, {1}}, {{2}, {3}}, {{4}, {5}}, {{6}, {7}}, {{8}, {9}}}));
  for (const int ahead : {1, 2, 10}) {
    StepInput steps(input_ahead(ahead), {});
    EXPECT_EQ(rest_of(steps), expected) << ahead;
    EXPECT_EQ(next_of(steps), StepBatches()) << "the end stays the end";
    steps.start_next_epoch();
    EXPECT_EQ(steps.epoch(), 1u);
    EXPECT_EQ(rest_of(steps), expected) << ahead;
  }
}

TEST(StepInput, PositionsFollowTheConsumer) {
  for (const int ahead : {1, 3}) {
    StepInput plain(input_ahead(0), {});
    StepInput steps(input_ahead(ahead), {});
    for (int taken = 0; taken <= 6; ++taken) {
      EXPECT_EQ(steps.save(), plain.save()) << "after " << taken;
      auto again = input_at(input_ahead(ahead), steps.save());
      auto expected = input_at(input_ahead(0), steps.save());
      EXPECT_EQ(rest_of(again), rest_of(expected)) << "after " << taken;
      EXPECT_EQ(next_of(steps), next_of(plain));
    }
  }
}

TEST(StepInput, PrefetchesAsFarAsAskedFor) {
  const auto num_read = std::make_shared<concurrency::Signal>();
  StepInput steps(input_ahead(2, -1, num_read), {});
  EXPECT_FALSE(num_read->wait_for(1, std::chrono::microseconds(0), kMoment)) << "not before next()";
  next_of(steps);
  // Two are ready, a third is in progress.
  EXPECT_TRUE(num_read->wait_for(2 * 4, std::chrono::microseconds(0), kLong));
  EXPECT_FALSE(num_read->wait_for(2 * 4 + 1, std::chrono::microseconds(0), kMoment));
}

TEST(StepInput, ErrorsKeepTheirOrder) {
  for (const int ahead : {0, 1, 10}) {
    StepInput steps(input_ahead(ahead, /*broken=*/5), {});
    EXPECT_EQ(rest_of(steps),
              (std::vector<StepBatches>{{{0}, {1}}, {{2}, {3}}, {{-1}}, {{6}, {7}}, {{8}, {9}}}));
  }
}

TEST(StepInput, ARefusedPositionChangesNothingThatIsPrefetched) {
  StepInput steps(input_ahead(3), {});
  next_of(steps);
  EXPECT_THROW(steps.restore(io::StateTree("nonsense")), Error);
  EXPECT_EQ(next_of(steps), (StepBatches{{2}, {3}}));
}

TEST(StepInput, LeavesNoThread) {
  const std::ptrdiff_t before = settled_threads_of_this_process();
  {
    StepInput steps(input_ahead(1), {});
    EXPECT_EQ(threads_of_this_process(), before);
    next_of(steps);
    EXPECT_GT(threads_of_this_process(), before);
    rest_of(steps);
    EXPECT_TRUE(threads_go_down_to(before)) << "at the end of the data";
    steps.start_next_epoch();
    next_of(steps);
  }
  EXPECT_TRUE(threads_go_down_to(before));
}

/// A source that returns one batch and then waits until it is cancelled.
class Stuck final : public data::Node<at::Tensor> {
 public:
  explicit Stuck(std::shared_ptr<concurrency::Signal> waits) : waits_(std::move(waits)) {}
  std::unique_ptr<data::IteratorBase<at::Tensor>> iterator(
      const data::IteratorOptions& options) const override {
    return std::make_unique<Iterator>(options.cancel.value(), *waits_);
  }
  std::int64_t cardinality() const override { return data::kInfinite; }
  std::string describe() const override { return "stuck"; }
  std::uint64_t depth() const override { return 0; }

 private:
  class Iterator final : public data::IteratorBase<at::Tensor> {
   public:
    Iterator(concurrency::CancelToken cancel, concurrency::Signal& waits)
        : cancel_(std::move(cancel)), waits_(waits) {}
    std::optional<at::Tensor> next() override {
      if (!std::exchange(has_given_, true)) return at::arange(2);
      waits_.raise();
      concurrency::Signal cancelled;
      const auto callback = cancel_.on_cancel([&] { cancelled.raise(); });
      EXPECT_TRUE(cancelled.wait_for(1, std::chrono::microseconds(0), kLong));
      cancel_.throw_if_cancelled("stuck");
      return std::nullopt;
    }
    io::StateTree save() const override { return {}; }
    void restore(const io::StateTree&) override {}

   private:
    concurrency::CancelToken cancel_;
    concurrency::Signal& waits_;
    bool has_given_ = false;
  };
  std::shared_ptr<concurrency::Signal> waits_;
};

DistributedInput stuck_input(std::shared_ptr<concurrency::Signal> waits) {
  auto input = input_of({data::Dataset<at::Tensor>(std::make_shared<Stuck>(std::move(waits)))}, 2,
                        BatchKind::kGlobal);
  input.options.per_replica_buffer_size = 1;
  return input;
}

TEST(StepInput, EndsWhileItsThreadWaitsForData) {
  const auto waits = std::make_shared<concurrency::Signal>();
  StepInput steps(stuck_input(waits), {});
  EXPECT_EQ(next_of(steps), (StepBatches{{0}, {1}}));
  EXPECT_TRUE(waits->wait_for(1, std::chrono::microseconds(0), kLong));
}

TEST(StepInput, ATokenEndsTheWaitForData) {
  const auto waits = std::make_shared<concurrency::Signal>();
  const concurrency::CancelToken token;
  StepInput steps(stuck_input(waits), {.cancel = token});
  next_of(steps);
  EXPECT_TRUE(waits->wait_for(1, std::chrono::microseconds(0), kLong));
  const io::StateTree after_the_first = steps.save();
  token.cancel();
  for (int call = 0; call < 2; ++call) {
    EXPECT_EQ(error_from([&] { steps.next(); }).code(), ErrorCode::kCancelled);
    EXPECT_EQ(steps.save(), after_the_first);
  }
}

}  // namespace
}  // namespace brigade::distribute
