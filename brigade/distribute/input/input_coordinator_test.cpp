#include "brigade/distribute/input/input_coordinator.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "brigade/distribute/input/distributed_dataset.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/input/tensor_slices.h"

namespace brigade::distribute {
namespace {

using Numbers = std::vector<std::int64_t>;

/// The second of two workers, each with one replica. It needs no peer: all have the same data.
DistributedIterator<at::Tensor> iterator_of_worker_1(AutoShardPolicy policy) {
  auto alone = std::make_shared<comm::LocalGroup>(1);
  std::shared_ptr<comm::Communicator> no_peers =
      std::move(comm::make_local_communicators(alone)[0]);
  const auto dataset = input::from_tensor_slices(at::arange(10)).batch(4);
  return {{.datasets = {dataset},
           .devices = {c10::Device(c10::kCPU)},
           .layout = {.replicas = {.first = 1, .local = 1, .total = 2},
                      .num_workers = 2,
                      .worker = 1,
                      .workers = no_peers},
           .policy = policy},
          {}};
}

std::vector<Numbers> rest_of(DistributedIterator<at::Tensor>& iterator) {
  std::vector<Numbers> batches;
  while (const auto batch = iterator.next()) {
    const at::Tensor own = (*batch)[0].contiguous();
    const auto* first = own.const_data_ptr<std::int64_t>();
    batches.emplace_back(first, first + own.numel());
  }
  return batches;
}

TEST(InputCoordinator, ByDataAWorkerTakesItsReplicasPartOfEachBatch) {
  auto iterator = iterator_of_worker_1(AutoShardPolicy::kData);
  EXPECT_EQ(rest_of(iterator), (std::vector<Numbers>{{2, 3}, {6, 7}, {9}}));
}

// TensorFlow, policy OFF, measured: both workers get [0, 1], [2, 3], [4, 5], ...
TEST(InputCoordinator, WithoutShardingAWorkerTakesAllPiecesOfEachBatch) {
  auto iterator = iterator_of_worker_1(AutoShardPolicy::kOff);
  EXPECT_EQ(rest_of(iterator), (std::vector<Numbers>{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8}, {9}}));
}

TEST(InputCoordinator, APositionWithinABatchIsRestored) {
  for (std::size_t taken = 0; taken <= 6; ++taken) {
    auto iterator = iterator_of_worker_1(AutoShardPolicy::kOff);
    for (std::size_t i = 0; i < taken; ++i) iterator.next();
    const io::StateTree saved = iterator.save();
    auto again = iterator_of_worker_1(AutoShardPolicy::kOff);
    again.restore(saved);
    EXPECT_EQ(rest_of(again), rest_of(iterator)) << "after " << taken;
  }
}

TEST(InputCoordinator, TheExamplesOfAStepAreCountedOverAllWorkers) {
  auto iterator = iterator_of_worker_1(AutoShardPolicy::kOff);
  EXPECT_EQ(iterator.next()->examples()->global, 4);  // both workers' 0 and 1
}

}  // namespace
}  // namespace brigade::distribute
