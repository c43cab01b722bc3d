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
using StepBatches = std::vector<std::optional<Numbers>>;  // [replica]

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
          .layout = with_replicas({}, replicas)};
}

StepBatches batches_in(const StepInput<at::Tensor>& step_input) {
  if (step_input.error) std::rethrow_exception(step_input.error);
  StepBatches batches;
  for (const auto& own : step_input.batches) {
    batches.emplace_back();
    if (!own) continue;
    const at::Tensor values = own->batch.contiguous();
    const auto* first = values.const_data_ptr<std::int64_t>();
    batches.back() = Numbers(first, first + values.numel());
  }
  return batches;
}

StepInputReader<at::Tensor> reader_at(const DistributedInput<at::Tensor>& input,
                                      const io::StateTree& state) {
  StepInputReader<at::Tensor> reader(input, {});
  reader.restore(state);
  return reader;
}

TEST(StepInputReader, ABatchIsSplitAmongAllReplicasOfTheJob) {
  auto input = input_of({batches_of(0, 7, 4)}, 2, BatchKind::kGlobal);
  input.layout.replicas = {.first = 1, .local = 2, .total = 3};
  StepInputReader<at::Tensor> reader(input, {});
  StepInput<at::Tensor> step_input = reader.read();
  EXPECT_EQ(step_input.examples.global, 4);
  EXPECT_EQ(step_input.examples.local, Numbers({1, 1}));
  EXPECT_EQ(batches_in(step_input), (StepBatches{Numbers{2}, Numbers{3}}));
  EXPECT_EQ(batches_in(reader.read()), (StepBatches{Numbers{5}, Numbers{6}}));
  EXPECT_FALSE(step_input.is_last);
  step_input = reader.read();
  EXPECT_TRUE(step_input.is_last);
  EXPECT_FALSE(step_input.has_data());
}

// In relaxed order the first number could not come first: it waits until the fourth was made.
TEST(StepInputReader, WorkersThatSplitTheSameBatchesKeepTheOrder) {
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
  StepInputReader<at::Tensor> reader(input, {});
  EXPECT_EQ(batches_in(reader.read()), (StepBatches{Numbers{1}}));
  EXPECT_EQ(batches_in(reader.read()), (StepBatches{Numbers{3}}));
}

TEST(StepInputReader, ReplicasTakeBatchesInRotationUntilTheDataEnds) {
  StepInputReader<at::Tensor> reader(input_of({batches_of(0, 5, 2)}, 2, BatchKind::kPerReplica),
                                     {});
  EXPECT_EQ(batches_in(reader.read()), (StepBatches{Numbers{0, 1}, Numbers{2, 3}}));
  const StepInput<at::Tensor> last = reader.read();
  EXPECT_EQ(batches_in(last), (StepBatches{Numbers{4}, std::nullopt}));
  EXPECT_EQ(last.examples.local, Numbers({1, 0}));
  EXPECT_TRUE(last.is_last);
}

TEST(StepInputReader, EachReplicaMayHaveItsOwnData) {
  const auto input =
      input_of({batches_of(0, 2, 2), batches_of(10, 15, 2)}, 2, BatchKind::kPerReplica);
  StepInputReader<at::Tensor> reader(input, {});
  EXPECT_EQ(batches_in(reader.read()), (StepBatches{Numbers{0, 1}, Numbers{10, 11}}));
  auto again = reader_at(input, reader.save());
  EXPECT_EQ(batches_in(again.read()), (StepBatches{std::nullopt, Numbers{12, 13}}));
  EXPECT_EQ(batches_in(again.read()), (StepBatches{std::nullopt, Numbers{14}}));
  EXPECT_TRUE(again.read().is_last);
}

TEST(StepInputReader, ABrokenBatchIsSkipped) {
  const auto input = input_of({batches_of(0, 8, 2, /*broken=*/3)}, 2, BatchKind::kGlobal);
  StepInputReader<at::Tensor> reader(input, {});
  reader.read();
  EXPECT_THROW(batches_in(reader.read()), Error);
  EXPECT_EQ(batches_in(reader_at(input, reader.save()).read()),
            (StepBatches{Numbers{4}, Numbers{5}}));
  EXPECT_EQ(batches_in(reader.read()), (StepBatches{Numbers{4}, Numbers{5}}));
}

TEST(StepInputReader, ABrokenBatchLosesNoOtherBatchOfItsStep) {
  const auto input = input_of({batches_of(0, 8, 2, /*broken=*/3)}, 2, BatchKind::kPerReplica);
  StepInputReader<at::Tensor> reader(input, {});
  EXPECT_THROW(batches_in(reader.read()), Error);
  auto again = reader_at(input, reader.save());
  EXPECT_THROW(batches_in(again.read()), Error) << "before the batches that no step has taken yet";
  EXPECT_EQ(batches_in(reader.read()), (StepBatches{Numbers{0, 1}, Numbers{4, 5}}));
  EXPECT_EQ(batches_in(again.read()), (StepBatches{Numbers{0, 1}, Numbers{4, 5}}));
  EXPECT_EQ(batches_in(reader.read()), (StepBatches{Numbers{6, 7}, std::nullopt}));
}

TEST(StepInputReader, ARefusedPositionChangesNothing) {
  const auto two =
      input_of({batches_of(0, 6, 2), batches_of(10, 16, 2)}, 2, BatchKind::kPerReplica);
  StepInputReader<at::Tensor> reader(two, {});
  reader.read();
  StepInputReader<at::Tensor> one(input_of({batches_of(0, 6, 2)}, 2, BatchKind::kPerReplica), {});
  const Error error = error_from([&] { reader.restore(one.save()); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "1 pipelines")) << error.what();
  io::StateTree mixed = io::StateTree::dict();
  mixed["replicas"] = io::StateTree::list();
  mixed["replicas"].push_back(two.datasets[0].iterator().save());
  mixed["replicas"].push_back(io::StateTree(3));
  EXPECT_THROW(reader.restore(mixed), Error);
  EXPECT_EQ(batches_in(reader.read()), (StepBatches{Numbers{2, 3}, Numbers{12, 13}}));
}

TEST(StepInputReader, AFunctionIsPartOfThePosition) {
  const auto plain = input_of({batches_of(0, 8, 2)}, 2, BatchKind::kGlobal);
  auto mapped = plain;
  mapped.function = [](const at::Tensor& own, ReplicaMapContext& context) {
    return own * 10 + static_cast<std::int64_t>(context.step);
  };
  StepInputReader<at::Tensor> reader(mapped, {});
  EXPECT_EQ(batches_in(reader.read()), (StepBatches{Numbers{0}, Numbers{10}}));
  EXPECT_EQ(batches_in(reader_at(mapped, reader.save()).read()),
            (StepBatches{Numbers{21}, Numbers{31}}))
      << "step 1";
  StepInputReader<at::Tensor> without(plain, {});
  EXPECT_TRUE(mentions(error_from([&] { without.restore(reader.save()); }), "map_on_replica"));
  EXPECT_TRUE(mentions(error_from([&] { reader.restore(without.save()); }), "map_on_replica"));
  reader.start_next_epoch();
  EXPECT_EQ(batches_in(reader.read()), (StepBatches{Numbers{0}, Numbers{10}}));
}

}  // namespace
}  // namespace brigade::distribute
