#include "brigade/distribute/input/step_input_reader.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <future>

#include "brigade/concurrency/testing/waiting.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/input/tensor_slices.h"

namespace brigade::distribute {
namespace {

using Numbers = std::vector<std::int64_t>;
using Shares = std::vector<std::optional<Numbers>>;  // [replica]

std::vector<c10::Device> cpu_devices(int count) {
  return std::vector<c10::Device>(static_cast<std::size_t>(count), c10::Device(c10::kCPU));
}

/// The numbers from `begin` up to `end` in batches; the number `broken` cannot be read.
data::Dataset<at::Tensor> batches_of(std::int64_t begin, std::int64_t end, std::int64_t size,
                                     std::int64_t broken = -1) {
  return input::from_tensor_slices(at::arange(begin, end))
      .map([broken](const at::Tensor& number) {
        check_argument(number.item<std::int64_t>() != broken, "broken");
        return number;
      })
      .batch(size);
}

DistributedInput<at::Tensor> input_of(std::vector<data::Dataset<at::Tensor>> datasets, int replicas,
                                      BatchKind kind) {
  return {.datasets = std::move(datasets),
          .devices = cpu_devices(replicas),
          .kind = kind,
          .place = with_replicas({}, replicas)};
}

Shares shares_of(const StepInput<at::Tensor>& turn) {
  if (turn.error) std::rethrow_exception(turn.error);
  Shares shares;
  for (const auto& placed : turn.shares) {
    shares.emplace_back();
    if (!placed) continue;
    const at::Tensor values = placed->share.contiguous();
    const auto* first = values.const_data_ptr<std::int64_t>();
    shares.back() = Numbers(first, first + values.numel());
  }
  return shares;
}

StepInputReader<at::Tensor> again_at(const DistributedInput<at::Tensor>& input,
                                 const io::StateTree& state) {
  StepInputReader<at::Tensor> drawer(input, {});
  drawer.restore(state);
  return drawer;
}

TEST(StepInputReader, ABatchIsCutForAllReplicasOfTheJob) {
  auto input = input_of({batches_of(0, 7, 4)}, 2, BatchKind::kGlobal);
  input.place.replicas = {.first = 1, .local = 2, .total = 3};
  StepInputReader<at::Tensor> drawer(input, {});
  StepInput<at::Tensor> turn = drawer.draw();
  EXPECT_EQ(turn.examples.global, 4);
  EXPECT_EQ(turn.examples.local, Numbers({1, 1}));
  EXPECT_EQ(shares_of(turn), (Shares{Numbers{2}, Numbers{3}}));
  EXPECT_EQ(shares_of(drawer.draw()), (Shares{Numbers{5}, Numbers{6}}));
  EXPECT_FALSE(turn.is_last);
  turn = drawer.draw();
  EXPECT_TRUE(turn.is_last);
  EXPECT_FALSE(turn.has_data());
}

// Its walk is relaxed: the first number cannot leave before the fourth was made.
TEST(StepInputReader, WorkersThatTakePartsOfTheSameBatchesKeepTheOrder) {
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
  input.place = {.replicas = {.first = 1, .local = 1, .total = 2}, .num_workers = 2, .worker = 1};
  StepInputReader<at::Tensor> drawer(input, {});
  EXPECT_EQ(shares_of(drawer.draw()), (Shares{Numbers{1}}));
  EXPECT_EQ(shares_of(drawer.draw()), (Shares{Numbers{3}}));
}

TEST(StepInputReader, ReplicasTakeTurnsUntilTheDataEnds) {
  StepInputReader<at::Tensor> drawer(input_of({batches_of(0, 5, 2)}, 2, BatchKind::kPerReplica), {});
  EXPECT_EQ(shares_of(drawer.draw()), (Shares{Numbers{0, 1}, Numbers{2, 3}}));
  const StepInput<at::Tensor> last = drawer.draw();
  EXPECT_EQ(shares_of(last), (Shares{Numbers{4}, std::nullopt}));
  EXPECT_EQ(last.examples.local, Numbers({1, 0}));
  EXPECT_TRUE(last.is_last);
}

TEST(StepInputReader, EachReplicaMayHaveDataOfItsOwn) {
  const auto input =
      input_of({batches_of(0, 2, 2), batches_of(10, 15, 2)}, 2, BatchKind::kPerReplica);
  StepInputReader<at::Tensor> drawer(input, {});
  EXPECT_EQ(shares_of(drawer.draw()), (Shares{Numbers{0, 1}, Numbers{10, 11}}));
  auto again = again_at(input, drawer.save());
  EXPECT_EQ(shares_of(again.draw()), (Shares{std::nullopt, Numbers{12, 13}}));
  EXPECT_EQ(shares_of(again.draw()), (Shares{std::nullopt, Numbers{14}}));
  EXPECT_TRUE(again.draw().is_last);
}

TEST(StepInputReader, ABrokenBatchIsPassed) {
  const auto input = input_of({batches_of(0, 8, 2, /*broken=*/3)}, 2, BatchKind::kGlobal);
  StepInputReader<at::Tensor> drawer(input, {});
  drawer.draw();
  EXPECT_THROW(shares_of(drawer.draw()), Error);
  EXPECT_EQ(shares_of(again_at(input, drawer.save()).draw()), (Shares{Numbers{4}, Numbers{5}}));
  EXPECT_EQ(shares_of(drawer.draw()), (Shares{Numbers{4}, Numbers{5}}));
}

TEST(StepInputReader, ABrokenBatchLosesNothingOfItsTurn) {
  const auto input = input_of({batches_of(0, 8, 2, /*broken=*/3)}, 2, BatchKind::kPerReplica);
  StepInputReader<at::Tensor> drawer(input, {});
  EXPECT_THROW(shares_of(drawer.draw()), Error);
  auto again = again_at(input, drawer.save());
  EXPECT_THROW(shares_of(again.draw()), Error) << "before the batches that no step has taken yet";
  EXPECT_EQ(shares_of(drawer.draw()), (Shares{Numbers{0, 1}, Numbers{4, 5}}));
  EXPECT_EQ(shares_of(again.draw()), (Shares{Numbers{0, 1}, Numbers{4, 5}}));
  EXPECT_EQ(shares_of(drawer.draw()), (Shares{Numbers{6, 7}, std::nullopt}));
}

TEST(StepInputReader, ARefusedPositionChangesNothing) {
  const auto two =
      input_of({batches_of(0, 6, 2), batches_of(10, 16, 2)}, 2, BatchKind::kPerReplica);
  StepInputReader<at::Tensor> drawer(two, {});
  drawer.draw();
  StepInputReader<at::Tensor> one(input_of({batches_of(0, 6, 2)}, 2, BatchKind::kPerReplica), {});
  const Error error = error_from([&] { drawer.restore(one.save()); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(says(error, "1 pipelines")) << error.what();
  io::StateTree mixed = io::StateTree::dict();
  mixed["replicas"] = io::StateTree::list();
  mixed["replicas"].push_back(two.datasets[0].iterator().save());
  mixed["replicas"].push_back(io::StateTree(3));
  EXPECT_THROW(drawer.restore(mixed), Error);
  EXPECT_EQ(shares_of(drawer.draw()), (Shares{Numbers{2, 3}, Numbers{12, 13}}));
}

TEST(StepInputReader, AFunctionIsPartOfThePosition) {
  const auto plain = input_of({batches_of(0, 8, 2)}, 2, BatchKind::kGlobal);
  auto mapped = plain;
  mapped.function = [](const at::Tensor& share, ReplicaMapContext& context) {
    return share * 10 + static_cast<std::int64_t>(context.step);
  };
  StepInputReader<at::Tensor> drawer(mapped, {});
  EXPECT_EQ(shares_of(drawer.draw()), (Shares{Numbers{0}, Numbers{10}}));
  EXPECT_EQ(shares_of(again_at(mapped, drawer.save()).draw()), (Shares{Numbers{21}, Numbers{31}}))
      << "step 1";
  StepInputReader<at::Tensor> without(plain, {});
  EXPECT_TRUE(says(error_from([&] { without.restore(drawer.save()); }), "map_on_replica"));
  EXPECT_TRUE(says(error_from([&] { drawer.restore(without.save()); }), "map_on_replica"));
  drawer.start_next_epoch();
  EXPECT_EQ(shares_of(drawer.draw()), (Shares{Numbers{0}, Numbers{10}}));
}

}  // namespace
}  // namespace brigade::distribute
