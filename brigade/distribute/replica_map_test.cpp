#include "brigade/distribute/replica_map.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

const c10::Device kCpu(c10::kCPU);

/// Random numbers drawn for one batch: from the context, and by a tensor operation.
struct Drawn {
  std::uint64_t number = 0;
  double tensor = 0;
  bool operator==(const Drawn&) const = default;
};

Drawn drawn_for(const ReplicaBatchId& id) {
  Drawn drawn;
  in_replica_map_context(id, kCpu, [&](ReplicaMapContext& context) {
    drawn.number = context.rng();
    drawn.tensor = at::rand({1}, at::kDouble).item<double>();
  });
  return drawn;
}

TEST(ReplicaMapFunction, RandomNumbersDependOnTheBatchAlone) {
  const ReplicaBatchId id{.seed = 3, .replica = 1, .epoch = 2, .step = 7};
  EXPECT_EQ(drawn_for(id), drawn_for(id));
  for (const ReplicaBatchId& other :
       {ReplicaBatchId{4, 1, 2, 7}, ReplicaBatchId{3, 0, 2, 7}, ReplicaBatchId{3, 1, 1, 7},
        ReplicaBatchId{3, 1, 2, 8}, ReplicaBatchId{3, 2, 1, 7}, ReplicaBatchId{2, 1, 3, 7}}) {
    EXPECT_NE(drawn_for(id).number, drawn_for(other).number);
    EXPECT_NE(drawn_for(id).tensor, drawn_for(other).tensor);
  }
}

TEST(ReplicaMapFunction, KnowsItsBatchAndRecordsNoGradients) {
  in_replica_map_context({.replica = 1, .epoch = 2, .step = 7}, kCpu,
                         [](ReplicaMapContext& context) {
                           EXPECT_EQ(context.replica, 1);
                           EXPECT_EQ(context.epoch, 2u);
                           EXPECT_EQ(context.step, 7u);
                           EXPECT_EQ(context.device, kCpu);
                           EXPECT_FALSE(at::GradMode::is_enabled());
                         });
  EXPECT_TRUE(at::GradMode::is_enabled());
}

TEST(ReplicaMapFunction, ErrorsNameTheBatch) {
  const Error error = error_from([] {
    in_replica_map_context({.replica = 1, .epoch = 2, .step = 7}, kCpu,
                           [](ReplicaMapContext&) { throw std::runtime_error("no image"); });
  });
  EXPECT_EQ(error.code(), ErrorCode::kAborted);
  EXPECT_TRUE(mentions(error, "replica 1 at step 7 of epoch 2: no image")) << error.what();
}

TEST(ReplicaMapFunction, KeepsTheNumberOfExamples) {
  EXPECT_NO_THROW(check_example_count(3, 3));
  EXPECT_EQ(error_from([] { check_example_count(3, 2); }).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::distribute
