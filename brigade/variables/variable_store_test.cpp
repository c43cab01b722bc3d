#include "brigade/variables/variable_store.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/comm/replica.h"
#include "brigade/device/device_scope.h"

namespace brigade::variables {
namespace {

using base::testing::code_of;

std::vector<c10::Device> devices_of(int count) {
  return std::vector<c10::Device>(static_cast<std::size_t>(count), c10::Device(c10::kCPU));
}

VariableSpec named(const std::string& name) {
  return {.name = name, .initial = at::full({2, 3}, 4.0F)};
}

VariableSpec fixed_named(const std::string& name) {
  VariableSpec spec = named(name);
  spec.trainable = false;
  return spec;
}

TEST(VariableStore, GivesEveryReplicaAComponentEqualToTheInitialValue) {
  for (const StorageSharing sharing : {StorageSharing::kOneStorage, StorageSharing::kOneCopyEach}) {
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
  VariableStore store(devices_of(2), StorageSharing::kOneStorage);
  const Variable shared = store.create(named("shared"));
  const Variable apart = store.create(fixed_named("apart"));
  EXPECT_EQ(shared.component(0).const_data_ptr(), shared.component(1).const_data_ptr());
  EXPECT_NE(apart.component(0).const_data_ptr(), apart.component(1).const_data_ptr());
  EXPECT_TRUE(shared.storage());
  EXPECT_FALSE(apart.storage());
  EXPECT_FALSE(apart.component(0).requires_grad());
}

TEST(VariableStore, ANameIsReservedAsLongAsItsVariableExists) {
  VariableStore store(devices_of(1), StorageSharing::kOneStorage);
  std::optional<Variable> first = store.create(named("w"));
  const Variable copy = *first;
  first.reset();
  EXPECT_FALSE(store.is_free("w"));
  EXPECT_EQ(code_of([&] { store.create(named("w")); }), ErrorCode::kAlreadyExists);
  EXPECT_TRUE(store.is_free("other"));
}

TEST(VariableStore, ANameIsFreeAgainAfterwards) {
  VariableStore store(devices_of(1), StorageSharing::kOneStorage);
  { const Variable gone = store.create(named("w")); }
  EXPECT_TRUE(store.is_free("w"));
  EXPECT_NO_THROW(store.create(named("w")));
}

TEST(VariableStore, RefusesToWorkInsideAReplica) {
  VariableStore store(devices_of(1), StorageSharing::kOneStorage);
  const comm::Replica replica;
  const base::AmbientScope<const comm::Replica> replica_scope(comm::kReplicaSlot, &replica);
  EXPECT_EQ(code_of([&] { store.create(named("w")); }), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(code_of([&] { store.adopt({}); }), ErrorCode::kFailedPrecondition);
}

TEST(VariableStore, RequiresDevicesAndAModuleForEach) {
  EXPECT_EQ(code_of([] { VariableStore({}, StorageSharing::kOneStorage); }),
            ErrorCode::kInvalidArgument);
  VariableStore store(devices_of(2), StorageSharing::kOneStorage);
  const std::vector<std::shared_ptr<torch::nn::Module>> one(1);
  EXPECT_EQ(code_of([&] { store.adopt(one); }), ErrorCode::kInvalidArgument);
}

TEST(VariableStore, FindsNamedVariables) {
  VariableStore store(VariableStoreOptions{});
  EXPECT_FALSE(store.find("w"));
  store.create_named(named("w"), {"some"});
  ASSERT_TRUE(store.find("w"));  // the store keeps it
  EXPECT_EQ(store.find("w")->name(), "w");
  EXPECT_FALSE(store.is_free("w"));
  const Variable other = store.create(named("other"));
  EXPECT_FALSE(store.find("other"));
  EXPECT_EQ(code_of([&] { store.create_named(named("other"), {}); }), ErrorCode::kAlreadyExists);
  EXPECT_EQ(store.variables("some").size(), 1U);
  EXPECT_TRUE(store.variables("some", "x").empty());
}

TEST(VariableStore, ServesManyThreadsAtTheSameTime) {
  VariableStore store(VariableStoreOptions{});
  for (int i = 0; i < 50; ++i) store.create_named(named(base::str_cat("v", i)), {"all"});
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const std::string name = base::str_cat("v", i % 50);
        if (store.find(name)->name() != name) ++wrong;
        if (i % 500 == 0 && store.variables("all").size() < 50) ++wrong;
      }
    });
  }
  for (int i = 50; i < 80; ++i) store.create_named(named(base::str_cat("v", i)), {"all"});
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(VariableStore, MovesVariablesToContiguousStorage) {
  for (const StorageSharing sharing : {StorageSharing::kOneStorage, StorageSharing::kOneCopyEach}) {
    VariableStore store(devices_of(2), sharing);
    const Variable a = store.create_named(named("a"), {});
    const Variable fixed = store.create_named(fixed_named("fixed"), {});
    const Variable b = store.create_named(named("b"), {});
    VariableSpec wide = named("wide");
    wide.initial = wide.initial.to(at::kDouble);
    const Variable alone = store.create_named(wide, {});
    b.assign(at::full({2, 3}, 7.0F));
    const at::Tensor handle = b.component(1);
    store.make_contiguous();
    EXPECT_EQ(a.storage(), b.storage());
    EXPECT_EQ(a.offset(), 0);
    EXPECT_EQ(b.offset(), a.storage()->next_offset(6));
    EXPECT_NE(alone.storage(), a.storage());
    EXPECT_FALSE(fixed.storage());
    for (int replica = 0; replica < 2; ++replica) {
      EXPECT_EQ(a.component(replica).sum().item<float>(), 24);
      EXPECT_EQ(b.component(replica).sum().item<float>(), 42);
      EXPECT_TRUE(b.component(replica).requires_grad());
      EXPECT_NO_THROW(b.check_untouched(replica));
      EXPECT_EQ(b.storage()->buffer(replica).sum().item<float>(), 66);
    }
    EXPECT_TRUE(b.component(1).is_same(handle));
    b.assign(at::full({2, 3}, 1.0F));
    EXPECT_EQ(b.storage()->buffer(1).sum().item<float>(), 30);
    const auto before = a.storage();
    store.make_contiguous();
    EXPECT_EQ(a.storage(), before);
  }
}

TEST(VariableStore, AcceptsADeviceOnlyWithDeviceScopes) {
  VariableSpec placed = named("w");
  placed.device = c10::Device(c10::kCPU);
  VariableStore by_scopes({.placement = StorePlacement::kDeviceScopes});
  EXPECT_NO_THROW(by_scopes.create(placed));
  VariableStore by_strategy(VariableStoreOptions{});
  EXPECT_EQ(code_of([&] { by_strategy.create(placed); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([] {
              VariableStore({.devices = devices_of(2), .placement = StorePlacement::kDeviceScopes});
            }),
            ErrorCode::kInvalidArgument);
}

struct OneWeight : torch::nn::Module {
  OneWeight() { register_parameter("w", at::full({2, 3}, 4.0F)); }
};

TEST(VariableStore, KeepsTheTaskThatDeviceScopesChooseIfVariablesLiveOnTasks) {
  std::vector<std::int64_t> bytes;
  const auto setter = [&](const device::PlacementRequest& request) {
    bytes.push_back(request.bytes.value_or(0));
    return base::str_cat("/job:ps/task:", bytes.size());
  };
  for (const StorePlacement placement : {StorePlacement::kTasks, StorePlacement::kDevices}) {
    bytes.clear();
    VariableStore store({.devices = devices_of(2), .placement = placement});
    EXPECT_EQ(store.create(named("without")).requested_device(), "");
    const auto scope = device::with_device(setter);
    const Variable a = store.create(named("a"));
    const std::vector<std::shared_ptr<torch::nn::Module>> modules = {std::make_shared<OneWeight>(),
                                                                     std::make_shared<OneWeight>()};
    const std::vector<Variable> adopted = store.adopt(modules, "model");
    EXPECT_EQ(a.num_components(), 2);
    if (placement == StorePlacement::kDevices) {
      EXPECT_TRUE(bytes.empty()) << "device scopes are ignored";
      EXPECT_EQ(a.requested_device(), "");
      continue;
    }
    EXPECT_EQ(a.requested_device(), "/job:ps/task:1");
    EXPECT_EQ(adopted.front().requested_device(), "/job:ps/task:2");
    EXPECT_EQ(bytes, (std::vector<std::int64_t>{24, 24})) << "once for each variable";
  }
}

TEST(MakeVariable, UsesTheOpenStoreOrCreatesOneComponent) {
  EXPECT_EQ(make_variable(named("w")).num_components(), 1);
  VariableStore store(devices_of(2), StorageSharing::kOneStorage);
  const base::AmbientScope<VariableStore> open(kStoreSlot, &store);
  const Variable variable = make_variable(named("w"));
  EXPECT_EQ(variable.num_components(), 2);
  EXPECT_FALSE(store.is_free("w"));
}

TEST(VariableStore, ListsTheLivingVariablesThatAreNotTrained) {
  VariableStore store(devices_of(2), StorageSharing::kOneStorage);
  const Variable trained = store.create(named("a"));
  const Variable kept = store.create(fixed_named("c"));
  std::optional<Variable> gone = store.create(fixed_named("b"));
  const auto names = [&] {
    std::string text;
    for (const Variable& variable : store.non_trainable_variables()) text += variable.name();
    return text;
  };
  EXPECT_EQ(names(), "bc");
  gone.reset();
  EXPECT_EQ(names(), "c");
}

/// Different in each element.
at::Tensor kernel_values(std::int64_t outputs = 2) {
  return at::arange(outputs * 60, at::kFloat).view({outputs, 3, 4, 5});
}

VariableSpec last_named(const std::string& name, const at::Tensor& initial) {
  return {.name = name, .initial = initial, .memory_format = at::MemoryFormat::ChannelsLast};
}

void expect_in_channels_last_order(const Variable& variable, const at::Tensor& value) {
  EXPECT_EQ(variable.memory_format(), at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(variable.read().equal(value));
  EXPECT_EQ(variable.shape(), value.sizes());
  for (int replica = 0; replica < variable.num_components(); ++replica) {
    EXPECT_TRUE(variable.component(replica).equal(value));
    EXPECT_TRUE(variable.component(replica).is_contiguous(at::MemoryFormat::ChannelsLast));
    if (!variable.trainable()) continue;
    const at::Tensor flat = variable.storage()->master(replica);
    EXPECT_TRUE(flat.narrow(0, variable.offset(), variable.numel())
                    .equal(value.permute({0, 2, 3, 1}).reshape(-1)));
    EXPECT_TRUE(variable.part_of(flat).equal(value));
    variable.check_untouched(replica);
  }
}

TEST(VariableStore, KeepsKernelsInChannelsLastOrder) {
  const Controller copying{.caching = Caching::kAlways};
  for (const StorageSharing sharing :
       {StorageSharing::kOneStorage, StorageSharing::kOneCopyEach, StorageSharing::kController}) {
    VariableStore store(devices_of(2), sharing, copying);
    const at::Tensor value = kernel_values();
    const std::vector<Variable> variables = {store.create(last_named("first", value)),
                                             store.create(last_named("next", kernel_values(3)))};
    const Variable& first = variables.front();
    expect_in_channels_last_order(first, value);
    store.make_contiguous(variables);
    ASSERT_EQ(first.storage(), variables[1].storage());
    expect_in_channels_last_order(first, value);
    expect_in_channels_last_order(variables[1], kernel_values(3));
    first.assign(value * 2);
    expect_in_channels_last_order(first, value * 2);
    first.assign((value * 3).contiguous(at::MemoryFormat::ChannelsLast));
    expect_in_channels_last_order(first, value * 3);
    first.assign_add(value);
    expect_in_channels_last_order(first, value * 4);
    EXPECT_EQ(variables[1].storage()->buffer(0).sum().item<float>(),
              (value.sum() * 4 + kernel_values(3).sum()).item<float>());
  }
}

TEST(VariableStore, KeepsTheOrderOfVariablesThatAreNotTrained) {
  VariableStore store(devices_of(2), StorageSharing::kOneStorage);
  VariableSpec spec = last_named("fixed", kernel_values());
  spec.trainable = false;
  expect_in_channels_last_order(store.create(spec), kernel_values());
  spec.name = "plain";
  spec.initial = kernel_values().contiguous(at::MemoryFormat::ChannelsLast);
  spec.memory_format = at::MemoryFormat::Contiguous;
  EXPECT_TRUE(store.create(spec).component(1).is_contiguous());
}

TEST(VariableStore, VariablesOfParameterServersAreContiguous) {
  VariableStore store({.placement = StorePlacement::kTasks});
  const Variable variable = store.create(last_named("kernel", kernel_values()));
  EXPECT_EQ(variable.memory_format(), at::MemoryFormat::Contiguous);
  EXPECT_TRUE(variable.component(0).is_contiguous());
  EXPECT_TRUE(variable.read().equal(kernel_values()));
}

}  // namespace
}  // namespace brigade::variables
