#include "brigade/variables/variable_store.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <optional>

#include "brigade/base/error.h"
#include "brigade/comm/replica.h"

namespace brigade::variables {
namespace {

std::vector<c10::Device> devices_of(int count) {
  return std::vector<c10::Device>(static_cast<std::size_t>(count), c10::Device(c10::kCPU));
}

VariableSpec named(const std::string& name, Trainable trainable = Trainable::kYes) {
  return {.name = name, .initial = at::full({2, 3}, 4.0F), .trainable = trainable};
}

ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

TEST(VariableStore, GivesEveryReplicaAComponentEqualToTheInitialValue) {
  for (const Sharing sharing : {Sharing::kOneStorage, Sharing::kOneCopyEach}) {
    VariableStore store(devices_of(3), sharing);
    EXPECT_EQ(store.num_replicas(), 3);
    const VariableSpec spec = named("w");
    const Variable variable = store.create(spec);
    spec.initial.zero_();
    ASSERT_EQ(variable.num_components(), 3);
    for (int replica = 0; replica < 3; ++replica) {
      EXPECT_EQ(variable.component(replica).sum().item<float>(), 24);
      EXPECT_TRUE(variable.component(replica).requires_grad());
      EXPECT_TRUE(variable.component(replica).is_leaf());
    }
    EXPECT_EQ(variable.shape(), at::IntArrayRef({2, 3}));
    EXPECT_EQ(variable.numel(), 6);
    EXPECT_EQ(variable.dtype(), at::kFloat);
  }
}

TEST(VariableStore, OnlyTrainableVariablesShareMemory) {
  VariableStore store(devices_of(2), Sharing::kOneStorage);
  const Variable shared = store.create(named("shared"));
  const Variable apart = store.create(named("apart", Trainable::kNo));
  EXPECT_EQ(shared.component(0).const_data_ptr(), shared.component(1).const_data_ptr());
  EXPECT_NE(apart.component(0).const_data_ptr(), apart.component(1).const_data_ptr());
  EXPECT_TRUE(shared.storage());
  EXPECT_FALSE(apart.storage());
  EXPECT_FALSE(apart.component(0).requires_grad());
}

TEST(VariableStore, ANameIsTakenAsLongAsItsVariableLives) {
  VariableStore store(devices_of(1), Sharing::kOneStorage);
  std::optional<Variable> first = store.create(named("w"));
  const Variable copy = *first;
  first.reset();
  EXPECT_FALSE(store.is_free("w"));
  EXPECT_EQ(code_of([&] { store.create(named("w")); }), ErrorCode::kAlreadyExists);
  EXPECT_TRUE(store.is_free("other"));
}

TEST(VariableStore, ANameIsFreeAgainAfterwards) {
  VariableStore store(devices_of(1), Sharing::kOneStorage);
  { const Variable gone = store.create(named("w")); }
  EXPECT_TRUE(store.is_free("w"));
  EXPECT_NO_THROW(store.create(named("w")));
}

TEST(VariableStore, RefusesToWorkInsideAReplica) {
  VariableStore store(devices_of(1), Sharing::kOneStorage);
  const comm::Replica replica;
  const base::AmbientScope<const comm::Replica> place(comm::kReplicaSlot, &replica);
  EXPECT_EQ(code_of([&] { store.create(named("w")); }), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(code_of([&] { store.adopt({}); }), ErrorCode::kFailedPrecondition);
}

TEST(VariableStore, WantsDevicesAndAModuleForEach) {
  EXPECT_EQ(code_of([] { VariableStore({}, Sharing::kOneStorage); }), ErrorCode::kInvalidArgument);
  VariableStore store(devices_of(2), Sharing::kOneStorage);
  const std::vector<std::shared_ptr<torch::nn::Module>> one(1);
  EXPECT_EQ(code_of([&] { store.adopt(one); }), ErrorCode::kInvalidArgument);
}

TEST(MakeVariable, GoesToTheOpenStoreAndElsewhereHasOneComponent) {
  EXPECT_EQ(make_variable(named("w")).num_components(), 1);
  VariableStore store(devices_of(2), Sharing::kOneStorage);
  const base::AmbientScope<VariableStore> open(kStoreSlot, &store);
  const Variable variable = make_variable(named("w"));
  EXPECT_EQ(variable.num_components(), 2);
  EXPECT_FALSE(store.is_free("w"));
}

}  // namespace
}  // namespace brigade::variables
