#include "brigade/variables/module_adoption.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <map>

#include "brigade/base/error.h"
#include "brigade/variables/variable_store.h"

namespace brigade::variables {
namespace {

/// A parameter, one tied to it, one of another dtype, one that is not trainable, and both kinds of
/// buffers.
struct Parts : torch::nn::Module {
  explicit Parts(std::int64_t width = 3) {
    weight = register_parameter("weight", at::rand({2, width}));
    tied = register_parameter("tied", weight);
    precise = register_parameter("precise", at::rand({5}, at::kDouble));
    fixed = register_parameter("fixed", at::rand({4}), /*requires_grad=*/false);
    mean = register_buffer("mean", at::rand({3}));
    seen = register_buffer("seen", at::full({}, 7, at::kLong));
  }
  at::Tensor weight, tied, precise, fixed, mean, seen;
};

struct Adopted {
  explicit Adopted(int replicas, StorageSharing sharing = StorageSharing::kOneStorage,
                   const std::string& prefix = "")
      : store(std::vector<c10::Device>(static_cast<std::size_t>(replicas), c10::Device(c10::kCPU)),
              sharing) {
    std::vector<std::shared_ptr<torch::nn::Module>> plain;
    for (int replica = 0; replica < replicas; ++replica) {
      modules.push_back(std::make_shared<Parts>());
      plain.push_back(modules.back());
    }
    for (Variable& variable : store.adopt(plain, prefix)) {
      names.push_back(variable.name());
      variables.emplace(variable.name(), variable);
    }
  }
  const Variable& at(const std::string& name) const { return variables.at(name); }

  VariableStore store;
  std::vector<std::shared_ptr<Parts>> modules;
  std::vector<std::string> names;
  std::map<std::string, Variable> variables;
};

TEST(ModuleAdoption, NamesVariablesInTheModulesOrder) {
  EXPECT_EQ(Adopted(2).names,
            std::vector<std::string>({"weight", "precise", "fixed", "mean", "seen"}));
  EXPECT_EQ(Adopted(1, StorageSharing::kOneStorage, "trunk").names.front(), "trunk.weight");
}

TEST(ModuleAdoption, TiedParametersAreOneVariableWithAliases) {
  const Adopted adopted(2);
  EXPECT_EQ(adopted.at("weight").aliases(), std::vector<std::string>({"tied"}));
  for (const auto& module : adopted.modules) {
    EXPECT_EQ(module->tied.const_data_ptr(), module->weight.const_data_ptr());
  }
}

TEST(ModuleAdoption, EveryReplicaStartsWithTheFirstOnesValues) {
  for (const StorageSharing sharing : {StorageSharing::kOneStorage, StorageSharing::kOneCopyEach}) {
    const Adopted adopted(3, sharing);
    for (const auto& module : adopted.modules) {
      EXPECT_TRUE(at::equal(module->weight, adopted.modules[0]->weight));
      EXPECT_TRUE(at::equal(module->precise, adopted.modules[0]->precise));
      EXPECT_TRUE(at::equal(module->fixed, adopted.modules[0]->fixed));
      EXPECT_TRUE(at::equal(module->mean, adopted.modules[0]->mean));
    }
  }
}

TEST(ModuleAdoption, KeepsTheValuesOfTheFirstReplica) {
  const auto module = std::make_shared<Parts>();
  const at::Tensor before = module->weight.detach().clone();
  VariableStore store({c10::Device(c10::kCPU)}, StorageSharing::kOneStorage);
  const std::vector<std::shared_ptr<torch::nn::Module>> modules = {module};
  const auto variables = store.adopt(modules);
  EXPECT_TRUE(at::equal(variables[0].read(), before));
}

TEST(ModuleAdoption, TheModulesOwnTensorsAreTheComponents) {
  const Adopted adopted(2);
  EXPECT_TRUE(adopted.at("weight").component(1).is_same(adopted.modules[1]->weight));
  EXPECT_TRUE(adopted.at("mean").component(1).is_same(adopted.modules[1]->mean));
  EXPECT_TRUE(adopted.modules[1]->weight.is_leaf());
  EXPECT_TRUE(adopted.modules[1]->weight.requires_grad());
}

TEST(ModuleAdoption, ReplicasShareTheMemoryOfParametersAndNotOfBuffers) {
  const Adopted shared(2);
  EXPECT_EQ(shared.modules[0]->weight.const_data_ptr(), shared.modules[1]->weight.const_data_ptr());
  EXPECT_NE(shared.modules[0]->mean.const_data_ptr(), shared.modules[1]->mean.const_data_ptr());
  EXPECT_NE(shared.modules[0]->seen.const_data_ptr(), shared.modules[1]->seen.const_data_ptr());
  const Adopted apart(2, StorageSharing::kOneCopyEach);
  EXPECT_NE(apart.modules[0]->weight.const_data_ptr(), apart.modules[1]->weight.const_data_ptr());
}

TEST(ModuleAdoption, ParametersOfOneDtypeAreInOneStorage) {
  const Adopted adopted(1);
  EXPECT_EQ(adopted.at("weight").storage(), adopted.at("fixed").storage());
  EXPECT_NE(adopted.at("weight").storage(), adopted.at("precise").storage());
  EXPECT_EQ(adopted.at("weight").offset(), 0);
  EXPECT_EQ(adopted.at("fixed").offset(), 16);
}

TEST(ModuleAdoption, BuffersAreReadOnDemandByMeanOrFromTheFirst) {
  const Adopted adopted(2);
  EXPECT_EQ(adopted.at("mean").synchronization(), Synchronization::kOnRead);
  EXPECT_EQ(adopted.at("mean").aggregation(), Aggregation::kMean);
  EXPECT_EQ(adopted.at("seen").aggregation(), Aggregation::kOnlyFirstReplica);
  EXPECT_EQ(adopted.at("weight").synchronization(), Synchronization::kOnWrite);
  EXPECT_FALSE(adopted.at("fixed").trainable());
  EXPECT_TRUE(adopted.at("weight").trainable());
  adopted.modules[0]->mean.fill_(1);
  adopted.modules[1]->mean.fill_(3);
  EXPECT_EQ(adopted.at("mean").read()[0].item<float>(), 2);
}

std::string refusal(const std::shared_ptr<torch::nn::Module>& first,
                    const std::shared_ptr<torch::nn::Module>& second) {
  try {
    const std::vector<std::shared_ptr<torch::nn::Module>> both = {first, second};
    plan_adoption(both, "");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ModuleAdoption, RefusesReplicasThatDiffer) {
  const std::string shapes = refusal(std::make_shared<Parts>(3), std::make_shared<Parts>(4));
  EXPECT_NE(shapes.find("weight"), std::string::npos) << shapes;
  EXPECT_NE(shapes.find("[2, 4]"), std::string::npos) << shapes;
  const std::string counts =
      refusal(std::make_shared<Parts>(), std::make_shared<torch::nn::Module>());
  EXPECT_NE(counts.find("0 in replica 1"), std::string::npos) << counts;
}

TEST(ModuleAdoption, ARefusedModelReservesNoNames) {
  VariableStore store(std::vector<c10::Device>(2, c10::Device(c10::kCPU)),
                      StorageSharing::kOneStorage);
  const std::vector<std::shared_ptr<torch::nn::Module>> unlike = {std::make_shared<Parts>(3),
                                                                  std::make_shared<Parts>(4)};
  EXPECT_THROW(store.adopt(unlike), Error);
  EXPECT_TRUE(store.is_free("weight"));
}

TEST(ModuleAdoption, TwoModelsOfTheSameNamesNeedAPrefix) {
  VariableStore store({c10::Device(c10::kCPU)}, StorageSharing::kOneStorage);
  const std::vector<std::shared_ptr<torch::nn::Module>> first = {std::make_shared<Parts>()};
  const std::vector<std::shared_ptr<torch::nn::Module>> second = {std::make_shared<Parts>()};
  const auto kept = store.adopt(first);
  EXPECT_THROW(store.adopt(second), Error);
  EXPECT_NO_THROW(store.adopt(second, "second"));
}

struct KernelModule : torch::nn::Module {
  explicit KernelModule(at::MemoryFormat format) {
    kernel = register_parameter("kernel", at::rand({2, 3, 4, 5}).contiguous(format));
    point = register_parameter("point", at::rand({2, 3, 1, 1}).contiguous(format));
  }
  at::Tensor kernel, point;
};

TEST(ModuleAdoption, KernelsInChannelsLastOrderKeepIt) {
  constexpr auto kLast = at::MemoryFormat::ChannelsLast;
  VariableStore store(std::vector<c10::Device>(2, c10::Device(c10::kCPU)),
                      StorageSharing::kOneCopyEach);
  // The order of replica 0 counts, as its values do.
  const auto first = std::make_shared<KernelModule>(kLast);
  const auto second = std::make_shared<KernelModule>(at::MemoryFormat::Contiguous);
  const at::Tensor value = first->kernel.detach().clone(at::MemoryFormat::Contiguous);
  const std::vector<std::shared_ptr<torch::nn::Module>> modules = {first, second};
  const auto variables = store.adopt(modules);
  EXPECT_EQ(variables[0].memory_format(), kLast);
  EXPECT_EQ(variables[1].memory_format(), at::MemoryFormat::Contiguous) << "the same in memory";
  for (const at::Tensor& kernel : {first->kernel, second->kernel}) {
    EXPECT_TRUE(kernel.is_contiguous(kLast));
    EXPECT_TRUE(kernel.equal(value));
  }
  EXPECT_TRUE(variables[0].read().equal(value));
}

}  // namespace
}  // namespace brigade::variables
