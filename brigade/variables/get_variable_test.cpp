#include "brigade/variables/get_variable.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/base/random.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/comm/replica.h"
#include "brigade/variables/collections.h"
#include "brigade/variables/graph.h"

namespace brigade::variables {
namespace {

using base::testing::code_of;
using Names = std::vector<std::string>;
using testing::HasSubstr;

Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "nothing was thrown");
}

/// Compares identity: a handle of the same variable.
bool are_same(const Variable& a, const Variable& b) {
  return a.component(0).is_same(b.component(0));
}

class GetVariable : public testing::Test {
 protected:
  Graph graph_;
  const base::AmbientScope<Graph> opened_{kGraphSlot, &graph_};
};

TEST_F(GetVariable, NamesByVariableScopesAndNotByNameScopes) {
  const auto scope = variable_scope("conv1");
  const auto names = name_scope("op");
  const Variable weights = get_variable("weights", {{3, 2}});
  EXPECT_EQ(weights.name(), "conv1/weights");
  EXPECT_EQ(weights.shape(), at::IntArrayRef({3, 2}));
  EXPECT_EQ(weights.dtype(), at::kFloat);
  EXPECT_TRUE(weights.trainable());
}

TEST_F(GetVariable, RefusesANameThatExistsUnlessItReuses) {
  const Variable v = get_variable("v", {{1}});
  EXPECT_EQ(code_of([] { get_variable("v", {{1}}); }), ErrorCode::kAlreadyExists);
  get_variable_scope().reuse_variables();
  EXPECT_TRUE(are_same(get_variable("v", {{1}}), v));
  EXPECT_TRUE(are_same(get_variable("v"), v));
}

TEST_F(GetVariable, RefusesAMissingNameWhereItReuses) {
  const auto scope = variable_scope("s", {.reuse = Reuse::kYes});
  const Error error = error_of([] { get_variable("v", {{1}}); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_THAT(error.what(), HasSubstr("'s/v' does not exist"));
}

TEST_F(GetVariable, GetsOrCreatesWithAutoReuse) {
  const auto scope = variable_scope("s", {.reuse = Reuse::kAuto});
  const Variable made = get_variable("v", {{1}});
  EXPECT_TRUE(are_same(get_variable("v", {{1}}), made));
}

TEST_F(GetVariable, RefusesAnotherShapeOrDtypeNamingBoth) {
  const auto scope = variable_scope("s", {.reuse = Reuse::kAuto});
  get_variable("v", {{1}});
  const Error shape = error_of([] { get_variable("v", {{2}}); });
  EXPECT_EQ(shape.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(shape.what(), HasSubstr("[2] and has shape [1]"));
  const Error dtype = error_of([] { get_variable("v", {{1}}, {.dtype = at::kDouble}); });
  EXPECT_EQ(dtype.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(dtype.what(), HasSubstr("Double and has dtype Float"));
  get_variable("i", {{1}}, {.dtype = at::kLong});
  EXPECT_EQ(code_of([] { get_variable("i"); }), ErrorCode::kInvalidArgument);
}

TEST_F(GetVariable, NeedsAShapeIfTheInitializerHasNone) {
  EXPECT_EQ(code_of([] { get_variable("v"); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([] { get_variable("v", {}, {.initializer = ones_initializer()}); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([] { get_variable("", {{1}}); }), ErrorCode::kInvalidArgument);
}

TEST_F(GetVariable, TakesAValueAsInitializerWithItsShapeAndDtype) {
  const auto initializer = Initializer::constant_value(at::arange(3, at::kLong));
  const Variable v = get_variable("v", {}, {.initializer = initializer});
  EXPECT_EQ(v.dtype(), at::kLong);
  EXPECT_TRUE(v.read().equal(at::arange(3, at::kLong)));
  EXPECT_EQ(code_of([&] { get_variable("w", {{3}}, {.initializer = initializer}); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(
      code_of([&] { get_variable("w", {}, {.dtype = at::kFloat, .initializer = initializer}); }),
      ErrorCode::kInvalidArgument);
}

TEST_F(GetVariable, DefaultsToGlorotUniformForFloatsAndZerosForOthers) {
  const Variable floats = get_variable("f", {{20, 10}});
  const double limit = std::sqrt(6.0 / 30.0);
  EXPECT_LE(floats.read().abs().max().item<double>(), limit);
  EXPECT_GT(floats.read().abs().max().item<double>(), limit / 2);
  EXPECT_EQ(get_variable("i", {{4}}, {.dtype = at::kLong}).read().abs().sum().item<int>(), 0);
  EXPECT_EQ(get_variable("b", {{4}}, {.dtype = at::kBool}).read().sum().item<int>(), 0);
  EXPECT_EQ(code_of([] { get_variable("c", {{4}}, {.dtype = at::kComplexFloat}); }),
            ErrorCode::kInvalidArgument);
}

TEST_F(GetVariable, TakesDefaultsFromTheScope) {
  const auto scope = variable_scope("s", {.initializer = ones_initializer(), .dtype = at::kDouble});
  const Variable v = get_variable("v", {{2}});
  EXPECT_EQ(v.dtype(), at::kDouble);
  EXPECT_EQ(v.read().sum().item<double>(), 2.0);
  const Variable own =
      get_variable("own", {{2}}, {.dtype = at::kFloat, .initializer = zeros_initializer()});
  EXPECT_EQ(own.dtype(), at::kFloat);
  EXPECT_EQ(own.read().sum().item<double>(), 0.0);
}

TEST_F(GetVariable, IsInItsCollections) {
  get_variable("a", {{1}});
  get_variable("b", {{1}}, {.trainable = false});
  get_variable("c", {{1}}, {.trainable = false, .collections = Names{kLocalVariables}});
  get_variable("d", {{1}}, {.collections = Names{kGlobalVariables, kModelVariables}});
  const auto names = [](const std::vector<Variable>& variables) {
    Names result;
    for (const Variable& variable : variables) result.push_back(variable.name());
    return result;
  };
  EXPECT_EQ(names(global_variables()), (Names{"a", "b", "d"}));
  EXPECT_EQ(names(trainable_variables()), (Names{"a", "d"}));
  EXPECT_EQ(names(local_variables()), (Names{"c"}));
  EXPECT_EQ(names(get_model_variables()), (Names{"d"}));
}

TEST_F(GetVariable, ChecksSynchronizationAndAggregation) {
  const VariableOptions on_read = {.synchronization = Synchronization::kOnRead,
                                   .aggregation = Aggregation::kSum};
  EXPECT_FALSE(get_variable("metric", {{1}}, on_read).trainable());
  VariableOptions trained = on_read;
  trained.trainable = true;
  EXPECT_EQ(code_of([&] { get_variable("x", {{1}}, trained); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([] { get_variable("x", {{1}}, {.synchronization = Synchronization::kNone}); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([] {
              get_variable("x", {{1}}, {.dtype = at::kLong, .aggregation = Aggregation::kMean});
            }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([] { get_variable("a b", {{1}}); }), ErrorCode::kInvalidArgument);
}

TEST_F(GetVariable, CallsTheInnerGetterFirstAndPassesItTheOuterOne) {
  Names calls;
  const auto recording = [&](const std::string& who) {
    return [&calls, who](const VariableGetter& getter, const GetVariableRequest& request) {
      calls.push_back(who + " " + request.name);
      GetVariableRequest next = request;
      next.name += "_" + who;
      return getter(next);
    };
  };
  const auto outer = variable_scope("a", {.custom_getter = recording("outer")});
  const auto inner = variable_scope("b", {.custom_getter = recording("inner")});
  EXPECT_EQ(get_variable("v", {{1}}).name(), "a/b/v_inner_outer");
  EXPECT_EQ(calls, (Names{"inner a/b/v", "outer a/b/v_inner"}));
}

TEST_F(GetVariable, LetsAGetterReplaceTheVariable) {
  const Variable other = get_variable("other", {{1}});
  const auto scope = variable_scope(
      "s",
      {.custom_getter = [&](const VariableGetter&, const GetVariableRequest&) { return other; }});
  EXPECT_TRUE(are_same(get_variable("v", {{7}}), other));
}

TEST_F(GetVariable, RefusesAPartitionerThatSplits) {
  const auto scope = variable_scope("s", {.partitioner = fixed_size_partitioner(3)});
  const Error error = error_of([] { get_variable("v", {{10, 2}}); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(error.what(), HasSubstr("get_partitioned_variable"));
  EXPECT_FALSE(graph_.store().find("s/v/part_0"));
  EXPECT_EQ(get_variable("scalar", {std::vector<std::int64_t>{}}).name(), "s/scalar");
}

TEST_F(GetVariable, TowersShareVariables) {
  const auto model = [] {
    std::vector<Variable> variables;
    for (int layer = 0; layer < 2; ++layer) {
      const auto scope = variable_scope(std::nullopt, {.default_name = "conv"});
      variables.push_back(get_variable("weights", {{2, 2}}));
    }
    return variables;
  };
  std::vector<std::vector<Variable>> towers;
  for (int i = 0; i < 2; ++i) {
    const auto names = name_scope("tower_" + std::to_string(i));
    const auto root =
        variable_scope(get_variable_scope(), {.reuse = i > 0 ? Reuse::kYes : Reuse::kInherit});
    towers.push_back(model());
  }
  EXPECT_EQ(towers[0][0].name(), "conv/weights");
  EXPECT_EQ(towers[0][1].name(), "conv_1/weights");
  for (int layer = 0; layer < 2; ++layer) {
    EXPECT_TRUE(are_same(towers[0][layer], towers[1][layer]));
  }
  EXPECT_EQ(global_variables().size(), 2U);
}

TEST(GetVariableOfStores, InitialValuesDependOnlyOnNameAndSeed) {
  const auto values = [](std::uint64_t seed, const Names& order, int replicas) {
    VariableStore store(
        {.devices = std::vector<c10::Device>(replicas, c10::Device(c10::kCPU)), .seed = seed});
    Graph graph(store);
    const auto opened = graph.as_default();
    for (const std::string& name : order) get_variable(name, {{5}});
    return store.find("a")->read();
  };
  const at::Tensor alone = values(7, {"a"}, 1);
  EXPECT_TRUE(alone.equal(values(7, {"b", "c", "a"}, 3)));
  EXPECT_FALSE(alone.equal(values(8, {"a"}, 1)));
  EXPECT_TRUE(
      alone.equal(glorot_uniform_initializer()({5}, at::kFloat, base::derive_seed(7, "a", 0, 0))));
}

TEST(GetVariableOfStores, AlwaysReusesInReplicas) {
  VariableStore store({.devices = std::vector<c10::Device>(2, c10::Device(c10::kCPU)),
                       .storage = make_flat_storage_factory(StorageSharing::kOneCopyEach)});
  Graph graph(store);
  const auto opened = graph.as_default();
  const Variable v = get_variable("v", {{1}});
  const comm::Replica replica{.id = 1, .count = 2, .local_id = 1};
  const base::AmbientScope<const comm::Replica> replica_scope(comm::kReplicaSlot, &replica);
  EXPECT_TRUE(are_same(get_variable("v", {{1}}), v));
  EXPECT_TRUE(get_value("v", {{1}}).is_same(v.component(1)));
  const auto scope = variable_scope("s", {.reuse = Reuse::kAuto});
  const Error error = error_of([] { get_variable("w", {{1}}); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_THAT(error.what(), HasSubstr("Strategy::create"));
}

TEST(GetVariableOfStores, RefusesTheNamesOfOtherVariablesOfTheStore) {
  VariableStore store(VariableStoreOptions{});
  Graph graph(store);
  const auto opened = graph.as_default();
  const Variable by_hand = store.create({.name = "v", .initial = at::full({1}, 2.0F)});
  EXPECT_EQ(code_of([] { get_variable("v", {{1}}); }), ErrorCode::kAlreadyExists);
}

TEST(GetVariableOfStores, NeedsAGraph) {
  EXPECT_EQ(code_of([] { get_variable("v", {{1}}); }), ErrorCode::kFailedPrecondition);
}

TEST(GetVariablePlacement, UsesDeviceScopesAndLogs) {
  std::vector<std::string> lines;
  auto placer = std::make_shared<device::Placer>(
      device::PlacementOptions{.log = true,
                               .sink = [&](std::string_view line) { lines.emplace_back(line); }},
      std::vector<device::Device>{device::Device{}});
  Graph graph(GraphOptions{.placer = placer});
  const auto opened = graph.as_default();
  std::vector<std::string> asked;
  const auto scope = device::with_device([&](const device::PlacementRequest& request) {
    asked.push_back(request.name + " " + std::to_string(request.bytes.value_or(-1)));
    return std::string("/cpu:0");
  });
  get_variable("w", {{3, 2}});
  get_variable_scope().reuse_variables();
  get_variable("w", {{3, 2}});
  EXPECT_EQ(asked, (Names{"w 24"}));
  EXPECT_EQ(lines, (Names{"w: (variable): cpu:0"}));
}

TEST(GetVariablePlacement, UsesAStrategysDevicesAndLogsThem) {
  auto placer = std::make_shared<device::Placer>(
      device::PlacementOptions{.log = true, .sink = [](std::string_view) {}},
      std::vector<device::Device>{device::Device{}});
  VariableStore store(VariableStoreOptions{});
  Graph graph(store, {.placer = placer});
  const auto opened = graph.as_default();
  const auto scope = device::with_device([](const device::PlacementRequest&) -> std::string {
    ADD_FAILURE() << "a strategy's variables are not asked for";
    return "";
  });
  get_variable("w", {{3, 2}});
  EXPECT_EQ(placer->lines(), (Names{"w: (variable): cpu:0"}));
}

using Shape = std::vector<std::int64_t>;

Names names_of(const PartitionedVariable& variable) {
  Names names;
  for (const Variable& part : variable.parts()) names.push_back(part.name());
  return names;
}

Partitioner cutting(Shape counts) {
  return [counts = std::move(counts)](at::IntArrayRef, at::ScalarType) { return counts; };
}

class PartitionedVariables : public testing::Test {
 protected:
  Graph graph_;
  const base::AmbientScope<Graph> opened_{kGraphSlot, &graph_};
};

TEST_F(PartitionedVariables, HaveNamedPartsOfTheSizesOfTensorFlow) {
  const auto scope = variable_scope("s", {.partitioner = fixed_size_partitioner(3)});
  const PartitionedVariable p = get_partitioned_variable("p", {{10, 2}});
  EXPECT_EQ(p.name(), "s/p");
  EXPECT_EQ(names_of(p), (Names{"s/p/part_0", "s/p/part_1", "s/p/part_2"}));
  EXPECT_EQ(p.parts()[0].shape(), at::IntArrayRef({4, 2}));
  EXPECT_EQ(p.parts()[2].shape(), at::IntArrayRef({3, 2}));
  EXPECT_EQ(p.shape(), (Shape{10, 2}));
  EXPECT_EQ(p.axis(), 0);
}

TEST_F(PartitionedVariables, HaveTheInitialValueOfTheWholeVariable) {
  const at::Tensor expected = get_variable("w", {{6, 4}}).read();
  for (const Shape& counts : {Shape{1, 1}, Shape{3, 1}, Shape{1, 4}}) {
    Graph graph;
    const auto opened = graph.as_default();
    const PartitionedVariable p =
        get_partitioned_variable("w", {{6, 4}}, {.partitioner = cutting(counts)});
    EXPECT_TRUE(p.value().equal(expected)) << at::IntArrayRef(counts);
  }
}

TEST_F(PartitionedVariables, SplitAGivenValue) {
  const PartitionedVariable p = get_partitioned_variable(
      "w", {},
      {.initializer = Initializer::constant_value(at::arange(5, at::kFloat)),
       .partitioner = fixed_size_partitioner(2)});
  EXPECT_TRUE(p.parts()[1].read().equal(at::arange(3, 5, at::kFloat)));
  EXPECT_TRUE(p.value().equal(at::arange(5, at::kFloat)));
}

TEST_F(PartitionedVariables, AreASingleVariableWithoutAPartitionerAndForScalars) {
  EXPECT_EQ(names_of(get_partitioned_variable("w", {{4}})), (Names{"w"}));
  EXPECT_EQ(names_of(get_partitioned_variable("s", {Shape{}},
                                              {.partitioner = fixed_size_partitioner(2)})),
            (Names{"s"}));
  EXPECT_EQ(
      names_of(get_partitioned_variable("one", {{4}}, {.partitioner = fixed_size_partitioner(1)})),
      (Names{"one/part_0"}));
}

TEST_F(PartitionedVariables, AreFoundWithoutThePartitioner) {
  const auto scope = variable_scope("s", {.reuse = Reuse::kAuto});
  const VariableOptions options = {.partitioner = cutting({1, 2})};
  const PartitionedVariable made = get_partitioned_variable("w", {{3, 5}}, options);
  for (const PartitionedVariable& found :
       {get_partitioned_variable("w", {{3, 5}}, options), get_partitioned_variable("w", {{3, 5}}),
        get_partitioned_variable("w")}) {
    EXPECT_EQ(names_of(found), names_of(made));
    EXPECT_EQ(found.axis(), 1);
    EXPECT_TRUE(found.parts()[1].component(0).is_same(made.parts()[1].component(0)));
  }
  EXPECT_EQ(code_of([] { get_variable("w", {{3, 5}}); }), ErrorCode::kFailedPrecondition);
}

TEST_F(PartitionedVariables, RefuseToBeSplitDifferently) {
  const auto scope = variable_scope("s", {.reuse = Reuse::kAuto});
  get_partitioned_variable("w", {{4, 6}}, {.partitioner = cutting({2, 1})});
  for (const Shape& counts : {Shape{4, 1}, Shape{1, 2}, Shape{1, 1}}) {
    EXPECT_EQ(code_of([&] {
                get_partitioned_variable("w", {{4, 6}}, {.partitioner = cutting(counts)});
              }),
              ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(code_of([] { get_partitioned_variable("w", {{4, 5}}); }), ErrorCode::kInvalidArgument);
  get_variable("whole", {{4}});
  EXPECT_EQ(code_of([] {
              get_partitioned_variable("whole", {{4}}, {.partitioner = fixed_size_partitioner(2)});
            }),
            ErrorCode::kInvalidArgument);
}

TEST_F(PartitionedVariables, RefuseInvalidPartitioners) {
  for (const Shape& counts : {Shape{2, 2}, Shape{2}, Shape{0, 1}}) {
    EXPECT_EQ(code_of([&] {
                get_partitioned_variable("w", {{4, 6}}, {.partitioner = cutting(counts)});
              }),
              ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(code_of([] {
              get_partitioned_variable("w", {}, {.partitioner = fixed_size_partitioner(2)});
            }),
            ErrorCode::kInvalidArgument);
}

TEST_F(PartitionedVariables, FollowTheScopesReuse) {
  const VariableOptions options = {.partitioner = fixed_size_partitioner(2)};
  get_partitioned_variable("w", {{4}}, options);
  EXPECT_EQ(code_of([&] { get_partitioned_variable("w", {{4}}, options); }),
            ErrorCode::kAlreadyExists);
  const auto scope = variable_scope("s", {.reuse = Reuse::kYes});
  EXPECT_EQ(code_of([&] { get_partitioned_variable("w", {{4}}, options); }), ErrorCode::kNotFound);
}

TEST_F(PartitionedVariables, SendTheGradientToTheirPartitions) {
  const PartitionedVariable p =
      get_partitioned_variable("w", {{4}}, {.partitioner = fixed_size_partitioner(2)});
  (p.value() * at::arange(4, at::kFloat)).sum().backward();
  EXPECT_TRUE(p.parts()[1].component(0).grad().equal(at::arange(2, 4, at::kFloat)));
  get_variable_scope().reuse_variables();
  EXPECT_TRUE(get_value("w", {{4}}).equal(p.value()));
}

// The same values for the same seed and name, whatever the order in memory.
TEST_F(GetVariable, InitialValuesDoNotDependOnTheMemoryFormat) {
  constexpr auto kLast = at::MemoryFormat::ChannelsLast;
  const std::vector<Initializer> initializers = {
      truncated_normal_initializer(), glorot_uniform_initializer(), orthogonal_initializer()};
  std::vector<std::vector<at::Tensor>> values;
  for (const auto format : {std::optional<at::MemoryFormat>(), std::optional(kLast)}) {
    Graph graph;
    const auto opened = graph.as_default();
    auto& of_format = values.emplace_back();
    for (std::size_t i = 0; i < initializers.size(); ++i) {
      const Variable variable =
          get_variable("v" + std::to_string(i), {{4, 3, 5, 2}},
                       {.initializer = initializers[i], .memory_format = format});
      EXPECT_EQ(variable.memory_format(), format.value_or(at::MemoryFormat::Contiguous));
      EXPECT_TRUE(variable.component(0).is_contiguous(variable.memory_format()));
      of_format.push_back(variable.read());
    }
    const PartitionedVariable parts = get_partitioned_variable(
        "parts", {{4, 3, 5, 2}},
        {.partitioner = fixed_size_partitioner(2), .memory_format = format});
    EXPECT_EQ(parts.parts()[1].memory_format(), format.value_or(at::MemoryFormat::Contiguous));
    of_format.push_back(parts.value().detach());
  }
  for (std::size_t i = 0; i < values[0].size(); ++i)
    EXPECT_TRUE(values[1][i].equal(values[0][i])) << i;
}

TEST_F(GetVariable, AVariableThatExistsKeepsItsMemoryFormat) {
  const auto scope = variable_scope("s", {.reuse = Reuse::kAuto});
  const Variable made = get_variable("v", {{2, 3, 2, 2}});
  const Variable found =
      get_variable("v", {{2, 3, 2, 2}}, {.memory_format = at::MemoryFormat::ChannelsLast});
  EXPECT_TRUE(are_same(found, made));
  EXPECT_EQ(found.memory_format(), at::MemoryFormat::Contiguous);
}

}  // namespace
}  // namespace brigade::variables
