#include "brigade/variables/variable_storage.h"

#include <gtest/gtest.h>

namespace brigade::variables {
namespace {

const std::vector<c10::Device> kTwoCpus(2, c10::Device(c10::kCPU));
const std::vector<std::int64_t> kSizes = {3, 16, 0, 17};

TEST(FlatStorage, EveryVariableIsAlignedTo64Bytes) {
  const FlatStorage floats(FlatLayout(at::kFloat, kSizes), kTwoCpus, StorageSharing::kOneStorage);
  EXPECT_EQ(floats.offset(0), 0);
  EXPECT_EQ(floats.offset(1), 16);
  EXPECT_EQ(floats.offset(2), 32);
  EXPECT_EQ(floats.offset(3), 32);
  EXPECT_EQ(floats.size(), 64);
  const FlatStorage doubles(FlatLayout(at::kDouble, kSizes), kTwoCpus, StorageSharing::kOneStorage);
  EXPECT_EQ(doubles.offset(1), 8);
  EXPECT_EQ(doubles.offset(3), 24);
  EXPECT_EQ(doubles.size(), 48);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(floats.buffer(0).const_data_ptr()) % 64, 0u);
}

TEST(FlatStorage, GivesTheOffsetOfTheNextVariable) {
  const FlatStorage storage(FlatLayout(at::kFloat, kSizes), kTwoCpus, StorageSharing::kOneStorage);
  EXPECT_EQ(storage.next_offset(3), 16);
  EXPECT_EQ(storage.next_offset(16), 16);
  EXPECT_EQ(storage.next_offset(17), 32);
}

TEST(FlatStorage, OneStorageIsTheSameForAllReplicas) {
  const FlatStorage storage(FlatLayout(at::kFloat, kSizes), kTwoCpus, StorageSharing::kOneStorage);
  EXPECT_EQ(storage.replicas(), 2);
  EXPECT_TRUE(storage.buffer(0).is_same(storage.buffer(1)));
}

TEST(FlatStorage, OneCopyEachIsSeparateMemory) {
  const FlatStorage storage(FlatLayout(at::kFloat, kSizes), kTwoCpus, StorageSharing::kOneCopyEach);
  storage.buffer(0).fill_(1);
  EXPECT_EQ(storage.buffer(1).sum().item<float>(), 0);
  EXPECT_EQ(storage.buffer(1).sizes(), storage.buffer(0).sizes());
}

TEST(FlatStorage, WithoutAControllerReplicasReadWhatIsUpdated) {
  const FlatStorage shared(FlatLayout(at::kFloat, kSizes), kTwoCpus, StorageSharing::kOneStorage);
  EXPECT_EQ(shared.masters(), 1);
  const FlatStorage apart(FlatLayout(at::kFloat, kSizes), kTwoCpus, StorageSharing::kOneCopyEach);
  EXPECT_EQ(apart.masters(), 2);
  for (const int replica : {0, 1}) {
    EXPECT_TRUE(shared.master(replica).is_same(shared.buffer(replica)));
    EXPECT_TRUE(apart.master(replica).is_same(apart.buffer(replica)));
    EXPECT_FALSE(shared.is_cached(replica) || apart.is_cached(replica));
  }
}

TEST(FlatStorage, ReplicasOnTheControllersDeviceReadTheMaster) {
  const FlatStorage storage(FlatLayout(at::kFloat, kSizes), kTwoCpus, StorageSharing::kController);
  EXPECT_EQ(storage.masters(), 1);
  EXPECT_TRUE(storage.buffer(0).is_same(storage.buffer(1)));
  EXPECT_TRUE(storage.master(1).is_same(storage.buffer(1)));
  EXPECT_FALSE(storage.is_cached(0));
  storage.refresh(0);  // does nothing
}

TEST(FlatStorage, RefreshCopiesTheMaster) {
  const FlatStorage storage(FlatLayout(at::kFloat, kSizes), kTwoCpus, StorageSharing::kController,
                            {.caching = Caching::kAlways});
  EXPECT_TRUE(storage.is_cached(0) && storage.is_cached(1));
  EXPECT_TRUE(storage.master(0).is_same(storage.master(1)));
  storage.master(0).fill_(3);
  EXPECT_EQ(storage.buffer(1).sum().item<float>(), 0);
  storage.refresh(1);
  EXPECT_EQ(storage.buffer(1).sum().item<float>(), 3 * storage.size());
  EXPECT_EQ(storage.buffer(0).sum().item<float>(), 0);
}

TEST(FlatStorage, GapsHoldZeros) {
  const FlatStorage storage(FlatLayout(at::kDouble, kSizes), kTwoCpus, StorageSharing::kOneStorage);
  EXPECT_EQ(storage.buffer(0).count_nonzero().item<std::int64_t>(), 0);
}

}  // namespace
}  // namespace brigade::variables
