#include "brigade/distribute/input/step_input_prefetcher.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "brigade/concurrency/signal.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/input/tensor_slices.h"

namespace brigade::distribute {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::chrono::seconds kLong(30);        // a test that waits this long has failed
constexpr std::chrono::milliseconds kShort(20);  // gives a wrong implementation time to continue

/// Ten numbers in batches of 2 for two replicas; the batch with `broken` cannot be read. `num_read`
/// is raised for each number read.
DistributedInput<at::Tensor> input_of(int ahead, std::int64_t broken = -1,
                                      std::shared_ptr<concurrency::Signal> num_read = nullptr) {
  return {.datasets = {input::from_tensor_slices(at::arange(10))
                           .map([broken, num_read](const at::Tensor& number) {
                             if (num_read) num_read->raise();
                             check_argument(number.item<std::int64_t>() != broken, "broken");
                             return number;
                           })
                           .batch(2)},
          .devices = {c10::Device(c10::kCPU), c10::Device(c10::kCPU)},
          .layout = with_replicas({}, 2),
          .options = {.per_replica_buffer_size = ahead}};
}

/// The numbers of the next step; -1 for an error, empty at the end.
Numbers next_of(StepInputPrefetcher<at::Tensor>& prefetcher) {
  Numbers numbers;
  try {
    for (const auto& own : prefetcher.next().batches) {
      if (own) numbers.push_back(own->batch.item<std::int64_t>());
    }
  } catch (const Error&) {
    numbers.push_back(-1);
  }
  return numbers;
}

std::vector<Numbers> rest_of(StepInputPrefetcher<at::Tensor>& prefetcher) {
  std::vector<Numbers> all;
  for (Numbers next = next_of(prefetcher); !next.empty(); next = next_of(prefetcher))
    all.push_back(next);
  return all;
}

TEST(StepInputPrefetcher, TheDepthDoesNotChangeTheBatches) {
  StepInputPrefetcher<at::Tensor> plain(input_of(0), {});
  const auto expected = rest_of(plain);
  EXPECT_EQ(expected, (std::vector<Numbers>{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}}));
  for (const int ahead : {1, 2, 10}) {
    StepInputPrefetcher<at::Tensor> prefetcher(input_of(ahead), {});
    EXPECT_EQ(rest_of(prefetcher), expected) << ahead;
    EXPECT_EQ(next_of(prefetcher), Numbers()) << "the end stays the end";
    prefetcher.start_next_epoch();
    EXPECT_EQ(prefetcher.epoch(), 1u);
    EXPECT_EQ(rest_of(prefetcher), expected) << ahead;
  }
}

TEST(StepInputPrefetcher, PositionsFollowTheConsumer) {
  for (const int ahead : {1, 3}) {
    StepInputPrefetcher<at::Tensor> plain(input_of(0), {});
    StepInputPrefetcher<at::Tensor> prefetcher(input_of(ahead), {});
    for (int taken = 0; taken <= 6; ++taken) {
      EXPECT_EQ(prefetcher.save(), plain.save()) << "after " << taken;
      StepInputPrefetcher<at::Tensor> again(input_of(ahead), {});
      again.restore(prefetcher.save());
      StepInputPrefetcher<at::Tensor> expected(input_of(0), {});
      expected.restore(prefetcher.save());
      EXPECT_EQ(rest_of(again), rest_of(expected)) << "after " << taken;
      EXPECT_EQ(next_of(prefetcher), next_of(plain));
    }
  }
}

TEST(StepInputPrefetcher, PrefetchesAsFarAsAskedFor) {
  const auto num_read = std::make_shared<concurrency::Signal>();
  StepInputPrefetcher<at::Tensor> prefetcher(input_of(2, -1, num_read), {});
  EXPECT_FALSE(num_read->wait_for(1, std::chrono::microseconds(0), kShort)) << "not before next()";
  next_of(prefetcher);
  // Two are ready, a third is in progress.
  EXPECT_TRUE(num_read->wait_for(2 * 4, std::chrono::microseconds(0), kLong));
  EXPECT_FALSE(num_read->wait_for(2 * 4 + 1, std::chrono::microseconds(0), kShort));
}

TEST(StepInputPrefetcher, ErrorsKeepTheirOrder) {
  for (const int ahead : {0, 1, 10}) {
    StepInputPrefetcher<at::Tensor> prefetcher(input_of(ahead, /*broken=*/5), {});
    EXPECT_EQ(rest_of(prefetcher), (std::vector<Numbers>{{0, 1}, {2, 3}, {-1}, {6, 7}, {8, 9}}));
  }
}

TEST(StepInputPrefetcher, ARefusedPositionChangesNothing) {
  StepInputPrefetcher<at::Tensor> prefetcher(input_of(3), {});
  next_of(prefetcher);
  EXPECT_THROW(prefetcher.restore(io::StateTree("nonsense")), Error);
  EXPECT_EQ(next_of(prefetcher), Numbers({2, 3}));
}

TEST(StepInputPrefetcher, LeavesNoThread) {
  const std::ptrdiff_t before = settled_threads_of_this_process();
  {
    StepInputPrefetcher<at::Tensor> prefetcher(input_of(1), {});
    EXPECT_EQ(threads_of_this_process(), before);
    next_of(prefetcher);
    EXPECT_GT(threads_of_this_process(), before);
    rest_of(prefetcher);
    EXPECT_TRUE(threads_go_down_to(before)) << "at the end of the data";
    prefetcher.start_next_epoch();
    next_of(prefetcher);
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

DistributedInput<at::Tensor> stuck_input(std::shared_ptr<concurrency::Signal> waits) {
  auto input = input_of(1);
  input.datasets = {data::Dataset<at::Tensor>(std::make_shared<Stuck>(std::move(waits)))};
  return input;
}

TEST(StepInputPrefetcher, EndsWhileItsThreadWaitsForData) {
  const auto waits = std::make_shared<concurrency::Signal>();
  StepInputPrefetcher<at::Tensor> prefetcher(stuck_input(waits), {});
  EXPECT_EQ(next_of(prefetcher), Numbers({0, 1}));
  EXPECT_TRUE(waits->wait_for(1, std::chrono::microseconds(0), kLong));
}

TEST(StepInputPrefetcher, ATokenEndsTheWaitForData) {
  const auto waits = std::make_shared<concurrency::Signal>();
  const concurrency::CancelToken token;
  StepInputPrefetcher<at::Tensor> prefetcher(stuck_input(waits), {.cancel = token});
  next_of(prefetcher);
  EXPECT_TRUE(waits->wait_for(1, std::chrono::microseconds(0), kLong));
  const io::StateTree after_the_first = prefetcher.save();
  token.cancel();
  for (int call = 0; call < 2; ++call) {
    EXPECT_EQ(error_from([&] { prefetcher.next(); }).code(), ErrorCode::kCancelled);
    EXPECT_EQ(prefetcher.save(), after_the_first);
  }
}

}  // namespace
}  // namespace brigade::distribute
