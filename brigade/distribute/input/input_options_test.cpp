#include "brigade/distribute/input/input_options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

TEST(InputOptions, PoliciesAreReadByTheirNames) {
  for (const auto policy : {AutoShardPolicy::kAuto, AutoShardPolicy::kFile, AutoShardPolicy::kData,
                            AutoShardPolicy::kHint, AutoShardPolicy::kOff})
    EXPECT_EQ(parse_auto_shard_policy(to_string(policy)), policy);
  const Error error = error_from([] { parse_auto_shard_policy("some"); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "'some'")) << error.what();
}

std::string refusal(const InputOptions& options, BatchKind kind = BatchKind::kGlobal) {
  const Error error = error_from([&] { check_input_options(options, kind); });
  if (error.code() != ErrorCode::kInvalidArgument) return "";
  return error.what();
}

TEST(InputOptions, ContradictingOptionsAreRefused) {
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({}, BatchKind::kPerReplica), "");
  EXPECT_TRUE(refusal({.per_replica_buffer_size = -1}).starts_with("InputOptions::per_replica_b"));
  EXPECT_NE(refusal({.replication = InputReplication::kPerReplica}).find("_from_function"),
            std::string::npos);
  EXPECT_NE(refusal({.auto_shard = AutoShardPolicy::kFile}, BatchKind::kPerReplica).find("'file'"),
            std::string::npos);
  EXPECT_NE(refusal({.fetch = DeviceFetch::kStayOnHost, .per_replica_buffer_size = 1}).find("Data"),
            std::string::npos);
}

// TensorFlow: experimental_place_dataset_on_device needs PER_REPLICA, and
// experimental_fetch_to_device to be false.
TEST(InputOptions, DatasetsOnDevicesArePerReplicaAndNotFetched) {
  const InputOptions right{.fetch = DeviceFetch::kStayOnHost,
                           .replication = InputReplication::kPerReplica,
                           .placement = DatasetPlacement::kOnReplica};
  EXPECT_EQ(refusal(right, BatchKind::kPerReplica), "");
  InputOptions fetched = right;
  fetched.fetch = DeviceFetch::kToReplica;
  EXPECT_NE(refusal(fetched, BatchKind::kPerReplica).find("kStayOnHost"), std::string::npos);
  InputOptions shared = right;
  shared.replication = InputReplication::kPerWorker;
  EXPECT_NE(refusal(shared, BatchKind::kPerReplica).find("kPerReplica"), std::string::npos);
}

TEST(InputOptions, BatchesArePrefetchedForGpus) {
  const std::vector<c10::Device> cpus(2, c10::Device(c10::kCPU));
  const std::vector<c10::Device> mixed{c10::Device(c10::kCPU), c10::Device(c10::kCUDA, 0)};
  EXPECT_EQ(batches_ahead({}, cpus), 0);
  EXPECT_EQ(batches_ahead({}, mixed), 1);
  EXPECT_EQ(batches_ahead({.fetch = DeviceFetch::kStayOnHost}, mixed), 0);
  EXPECT_EQ(batches_ahead({.per_replica_buffer_size = 3}, cpus), 3);
  EXPECT_EQ(batches_ahead({.per_replica_buffer_size = 0}, mixed), 0);
}

TEST(InputContext, DividesTheGlobalBatch) {
  EXPECT_EQ(InputContext{.num_replicas_in_sync = 4}.get_per_replica_batch_size(32), 8);
  EXPECT_EQ(InputContext{}.get_per_replica_batch_size(7), 7);
}

TEST(InputContext, RefusesUnevenSizesAndNamesTheNearestEvenOnes) {
  const InputContext context{.num_replicas_in_sync = 3};
  const Error error = error_from([&] { context.get_per_replica_batch_size(10); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "9 or 12")) << error.what();
  EXPECT_TRUE(mentions(error_from([&] { context.get_per_replica_batch_size(2); }), " 3 would"));
  EXPECT_EQ(error_from([&] { context.get_per_replica_batch_size(0); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_from([&] { context.get_per_replica_batch_size(-3); }).code(),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::distribute
