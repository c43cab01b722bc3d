#include "brigade/distribute/input/step_input.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>

#include "brigade/concurrency/signal.h"
#include "brigade/concurrency/testing/waiting.h"
#include "brigade/data/core/iterator.h"
#include "brigade/data/runtime/autotune.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/machine/cgroup.h"

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

// Batches in pieces.

/// The numbers up to `count` in batches, for one replica, which takes them in pieces.
StepInput pieces_of(std::int64_t count, std::int64_t batch, PieceSizes sizes) {
  auto input = input_of({batches_of(0, count, batch)}, 1, BatchKind::kPerReplica);
  input.piece_sizes = std::move(sizes);
  return {input, {}};
}

/// Pieces of at most `most` examples each; only the last one is smaller.
PieceSizes at_most(std::int64_t most) {
  return [most](std::int64_t size, std::int64_t) {
    Numbers sizes;
    for (; size > 0; size -= sizes.back()) sizes.push_back(std::min(size, most));
    return sizes;
  };
}

StepBatches rest_of_pieces(StepInput& input) {
  StepBatches pieces;
  for (StepBatches& step : rest_of(input)) pieces.push_back(std::move(step[0]));
  return pieces;
}

TEST(StepInput, GivesBatchesInPieces) {
  auto pieces = pieces_of(7, 4, at_most(3));
  EXPECT_EQ(rest_of_pieces(pieces), (StepBatches{{0, 1, 2}, {3}, {4, 5, 6}}));
  EXPECT_FALSE(pieces.next().has_value());
  pieces.start_next_epoch();
  EXPECT_EQ(pieces.epoch(), 1u);
  EXPECT_EQ(rest_of_pieces(pieces).size(), 3u);
}

TEST(StepInput, WithoutSizesPiecesAreBatches) {
  auto pieces = pieces_of(5, 4, nullptr);
  EXPECT_EQ(rest_of_pieces(pieces), (StepBatches{{0, 1, 2, 3}, {4}}));
}

TEST(StepInput, KnowsTheLargestBatchOfTheEpoch) {
  std::vector<std::pair<std::int64_t, std::int64_t>> asked;
  auto pieces = pieces_of(6, 4, [&](std::int64_t size, std::int64_t full) {
    asked.emplace_back(size, full);
    return Numbers{size, 0};
  });
  EXPECT_EQ(rest_of_pieces(pieces), (StepBatches{{0, 1, 2, 3}, {}, {4, 5}, {}}));
  EXPECT_EQ(asked, (decltype(asked){{4, 4}, {2, 4}}));
}

TEST(StepInput, ResumesBetweenAnyTwoPieces) {
  for (std::size_t taken = 0; taken <= 7; ++taken) {
    auto pieces = pieces_of(11, 5, at_most(2));
    for (std::size_t i = 0; i < taken; ++i) pieces.next();
    auto again = pieces_of(11, 5, at_most(2));
    again.next();
    again.restore(pieces.save());
    EXPECT_EQ(rest_of(again), rest_of(pieces)) << "after " << taken;
  }
}

TEST(StepInput, SplitsTheRestOfABatchInANewWay) {
  auto pieces = pieces_of(11, 5, at_most(2));
  pieces.next();
  pieces.next();  // 0 to 3
  auto again = pieces_of(11, 5, at_most(3));
  again.restore(pieces.save());
  EXPECT_EQ(rest_of_pieces(again), (StepBatches{{4}, {5, 6, 7}, {8, 9}, {10}}));
}

TEST(StepInput, RefusesAPositionWithinABatchWhereBatchesAreWhole) {
  auto pieces = pieces_of(11, 5, at_most(2));
  pieces.next();
  const io::StateTree within = pieces.save();
  auto whole = pieces_of(11, 5, nullptr);
  EXPECT_TRUE(mentions(error_from([&] { whole.restore(within); }), "within a batch"));
  EXPECT_EQ(rest_of(whole).size(), 3u) << "a refused restore must change nothing";
  auto other_data = pieces_of(0, 5, at_most(2));
  EXPECT_EQ(error_from([&] { other_data.restore(within); }).code(), ErrorCode::kInvalidArgument);
  auto at_border = pieces_of(11, 5, at_most(5));
  at_border.next();
  whole = pieces_of(11, 5, nullptr);
  whole.restore(at_border.save());
  EXPECT_EQ(rest_of(whole).size(), 2u);
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

// The budget of the pipelines.

TEST(InputBudget, IsTheCoresThatReplicasDoNotUse) {
  EXPECT_EQ(cores_for_input(16, 4, 1), 12);
  EXPECT_EQ(cores_for_input(16, 0, 1), 16);
}

TEST(InputBudget, IsNeverLessThanOneCoreForAllPipelinesTogether) {
  EXPECT_EQ(cores_for_input(2, 2, 1), 1);
  EXPECT_EQ(cores_for_input(2, 8, 4), 0.25);
}

TEST(InputBudget, IsDividedAmongPipelines) {
  EXPECT_EQ(cores_for_input(16, 4, 4), 3);
}

TEST(InputBudget, CountsOnlyReplicasOnCpus) {
  const std::vector<c10::Device> replicas = {c10::Device(c10::kCPU), c10::Device(c10::kCUDA, 0)};
  const auto cores = static_cast<double>(data::usable_cores());
  const double allowed = std::min(cores, machine::cgroup_cpu_limit().value_or(cores));
  EXPECT_EQ(input_tuning(replicas, 1).cpu_budget, cores_for_input(allowed, 1, 1));
  EXPECT_FALSE(input_tuning(replicas, 1).memory_budget.has_value());
}

TEST(InputBudget, RespectsTheLimitOfAContainer) {
  namespace fs = std::filesystem;
  std::string pattern = (fs::temp_directory_path() / "brigade_budget_XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const fs::path root = pattern;
  fs::create_directories(root / "proc/self");
  fs::create_directories(root / "sys/fs/cgroup");
  std::ofstream(root / "proc/self/cgroup") << "0::/\n";
  const std::vector<c10::Device> on_gpu = {c10::Device(c10::kCUDA, 0)};
  // A limit a quarter of a core below the machine's cores, then one above: the smaller counts.
  const auto cores = static_cast<std::int64_t>(data::usable_cores());
  std::ofstream(root / "sys/fs/cgroup/cpu.max") << (cores * 100 - 25) * 1'000 << " 100000\n";
  EXPECT_EQ(input_tuning(on_gpu, 1, root).cpu_budget,
            std::max(1.0, static_cast<double>(cores) - 0.25));
  std::ofstream(root / "sys/fs/cgroup/cpu.max") << (cores + 3) * 100'000 << " 100000\n";
  EXPECT_EQ(input_tuning(on_gpu, 1, root).cpu_budget, static_cast<double>(cores));
  fs::remove_all(root);
}

}  // namespace
}  // namespace brigade::distribute
