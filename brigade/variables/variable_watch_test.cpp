#include "brigade/variables/variable_watch.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/comm/replica.h"

namespace brigade::variables {
namespace {

VariableSpec statistic(const std::string& name) {
  return {.name = name,
          .initial = at::zeros({2}),
          .trainable = false,
          .synchronization = Synchronization::kOnRead,
          .aggregation = Aggregation::kMean};
}

TEST(VariableWatch, FindsWhatTheReplicaChanged) {
  VariableStore store({c10::Device(c10::kCPU), c10::Device(c10::kCPU)},
                      StorageSharing::kOneStorage);
  const Variable assigned = store.create(statistic("assigned"));
  const Variable untouched = store.create(statistic("untouched"));
  const Variable in_place = store.create(statistic("in_place"));
  const comm::Replica replica{.id = 1, .count = 2, .local_id = 1};
  const base::AmbientScope<const comm::Replica> scope(comm::kReplicaSlot, &replica);
  const VariableWatch watch(store);
  assigned.assign(at::full({2}, 3.0F));
  in_place.component(1).add_(1);
  untouched.component(0).add_(1);  // another replica's
  std::vector<std::string> names;
  for (const Variable& variable : watch.changed()) names.push_back(variable.name());
  EXPECT_EQ(names, (std::vector<std::string>{"assigned", "in_place"}));

  const KeptValues kept(watch.changed());
  assigned.assign(at::full({2}, 5.0F));
  in_place.component(0).add_(7);
  kept.restore();
  EXPECT_TRUE(assigned.component(1).equal(at::full({2}, 3.0F)));
  EXPECT_TRUE(in_place.component(1).equal(at::full({2}, 1.0F)));
  EXPECT_TRUE(in_place.component(0).equal(at::full({2}, 7.0F)));
}

TEST(VariableWatch, FindsVariablesThatWereMade) {
  VariableStore store({c10::Device(c10::kCPU)}, StorageSharing::kOneStorage);
  const Variable before = store.create(statistic("b"));
  const VariableWatch watch(store);
  const Variable first = store.create(statistic("a"));
  const Variable last = store.create(statistic("c"));
  ASSERT_EQ(watch.changed().size(), 2U);
  EXPECT_TRUE(watch.changed()[0].is_same(first) && watch.changed()[1].is_same(last));
}

}  // namespace
}  // namespace brigade::variables
