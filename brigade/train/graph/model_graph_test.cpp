#include "brigade/train/graph/model_graph.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "brigade/base/strings.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/regularizers.h"
#include "brigade/optim/sgd.h"
#include "brigade/train/graph/graph_names.h"
#include "brigade/train/testing/tick_clock.h"

namespace brigade::train {
namespace {

using summary::GraphNode;
using testing::Contains;
using testing::ElementsAre;
using Lines = std::vector<std::string>;

struct Dense : torch::nn::Module {
  Dense(std::int64_t in, std::int64_t out) {
    weight = register_parameter("weight", at::ones({out, in}));
    bias = register_parameter("bias", at::zeros({out}));
  }
  at::Tensor weight, bias;
};

struct Net : torch::nn::Module {
  Net() {
    first = register_module("first", std::make_shared<Dense>(3, 4));
    second = register_module("second", std::make_shared<Dense>(4, 2));
    calls = register_buffer("calls", at::zeros({1}));
  }
  at::Tensor forward(const at::Tensor& x) const {
    return at::linear(at::relu(at::linear(x, first->weight, first->bias)), second->weight,
                      second->bias);
  }
  std::shared_ptr<Dense> first, second;
  at::Tensor calls;
};

/// A model with the record of one step.
template <class Model>
struct Recorded {
  Recorded(distribute::Strategy& the_strategy, const Model& the_model)
      : strategy(the_strategy), model(the_model) {
    const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
    const TickClock clock;
    OperationRecorder recorder(clock);
    recorder.start();
    strategy.run([&](distribute::ReplicaContext&) {
      sgd.minimize(model(at::ones({5, 3})).sum(), distribute::LossScale::kSum);
    });
    record = recorder.stop();
    graph = model_graph(strategy, model.variables(), record);
  }

  /// "name <- inputs @ device" of the nodes whose name is `prefix` or is below it.
  Lines lines(const std::string& prefix = "") const {
    Lines found;
    for (const GraphNode& node : graph.nodes) {
      if (!node.name.starts_with(prefix)) continue;
      found.push_back(
          base::str_cat(node.name, " <- ", base::join(node.inputs, " "), " @ ", node.device));
    }
    return found;
  }

  const GraphNode& node(const std::string& name) const {
    const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                    [&](const GraphNode& each) { return each.name == name; });
    check_argument(found != graph.nodes.end(), "no node " + name);
    return *found;
  }

  distribute::Strategy& strategy;
  Model model;
  OperationRecord record;
  ModelGraph graph;
};

TEST(ModelGraph, ShowsLayersInOrderWithTheirInputs) {
  distribute::MirroredStrategy strategy(distribute::cpus(1));
  const Recorded net(strategy, strategy.create<Net>());
  EXPECT_THAT(net.lines(),
              ElementsAre("first/weight <-  @ /device:CPU:0", "first/bias <-  @ /device:CPU:0",
                          "second/weight <-  @ /device:CPU:0", "second/bias <-  @ /device:CPU:0",
                          "calls <-  @ /device:CPU:0", "first/T <- first/weight @ /device:CPU:0",
                          "inputs <-  @ /device:CPU:0",
                          "first/Addmm <- inputs first/bias first/T @ /device:CPU:0",
                          "Relu <- first/Addmm @ /device:CPU:0",
                          "second/T <- second/weight @ /device:CPU:0",
                          "second/Addmm <- second/bias Relu second/T @ /device:CPU:0",
                          "Sum <- second/Addmm @ /device:CPU:0"));
  const GraphNode& weight = net.node("first/weight");
  EXPECT_EQ(weight.op, "VariableV2");
  EXPECT_EQ(weight.attributes.at("shape"), summary::Attribute(summary::Shape{4, 3}));
  EXPECT_EQ(weight.attributes.at("dtype"), summary::Attribute("Float"));
  EXPECT_EQ(weight.attributes.at("trainable"), summary::Attribute(true));
  EXPECT_EQ(net.node("calls").attributes.at("trainable"), summary::Attribute(false));
  EXPECT_EQ(net.node("first/Addmm").output_shapes, (std::vector<summary::Shape>{{5, 4}}));
  EXPECT_EQ(summary::decode_graph(summary::encode_graph(net.graph.nodes)).size(), 12u);
}

TEST(ModelGraph, ShowsEachReplicaOnItsDevice) {
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  const Recorded net(strategy, strategy.create<Net>());
  EXPECT_EQ(net.node("second/Addmm").device, "/device:CPU:0");
  // Replicas on CPU share trained variables, and have their own buffers.
  EXPECT_THAT(net.lines(),
              Contains("replica_1/second/Addmm <- second/bias replica_1/Relu replica_1/second/T @ "
                       "/device:CPU:1"));
  EXPECT_THAT(net.lines("calls"),
              ElementsAre("calls <-  @ /device:CPU:0", "calls/replica_1 <-  @ /device:CPU:1"));
  EXPECT_THAT(net.lines("first/weight"), ElementsAre("first/weight <-  @ /device:CPU:0"));
}

TEST(ModelGraph, ShowsReadersOfCopiesOfTheController) {
  distribute::CentralStorageStrategy strategy(
      distribute::central_cpus(2, variables::Caching::kAlways));
  const Recorded net(strategy, strategy.create<Net>());
  EXPECT_THAT(net.lines("first/weight"),
              ElementsAre("first/weight <-  @ /device:CPU:0",
                          "first/weight/copy_0 <- first/weight @ /device:CPU:0",
                          "first/weight/copy_1 <- first/weight @ /device:CPU:1"));
  EXPECT_THAT(net.lines(), Contains("replica_1/first/T <- first/weight/copy_1 @ /device:CPU:1"));
}

TEST(ModelGraph, FindsLayersOfFunctions) {
  distribute::MirroredStrategy strategy(distribute::cpus(1));
  const auto function = [](const at::Tensor& x) {
    const auto hidden = layers::fully_connected(
        x, 4, {.weights_regularizer = layers::l2_regularizer(0.5), .scope = "first"});
    return layers::fully_connected(hidden, 2, {.scope = "second"});
  };
  const Recorded net(strategy, strategy.create(function, at::ones({1, 3})));
  EXPECT_THAT(net.lines(), Contains("first/T <- first/weights @ /device:CPU:0"));
  const auto is_of = [&](const std::string& kind, const std::string& layer) {
    return std::any_of(net.graph.nodes.begin(), net.graph.nodes.end(), [&](const GraphNode& node) {
      return node.op == kind && node.name.starts_with(layer + "/");
    });
  };
  EXPECT_TRUE(is_of("Addmm", "first"));
  EXPECT_TRUE(is_of("Addmm", "second"));
  EXPECT_FALSE(is_of("Relu", "first"));
}

TEST(ModelGraph, WithoutABackwardPassHasVariables) {
  distribute::MirroredStrategy strategy(distribute::cpus(1));
  const auto model = strategy.create<Net>();
  EXPECT_EQ(model_graph(strategy, model.variables(), {}).nodes.size(), 5u);
}

TEST(NodeTimings, HaveForwardAndBackwardOfEachOperation) {
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  const Recorded net(strategy, strategy.create<Net>());
  const auto timings = node_timings(net.graph, net.record);
  for (const char* name : {"first/Addmm", "Relu", "replica_1/second/Addmm"}) {
    const auto found = std::find_if(timings.begin(), timings.end(),
                                    [&](const auto& each) { return each.node == name; });
    ASSERT_NE(found, timings.end()) << name;
    EXPECT_EQ(found->device, net.node(name).device);
    std::chrono::nanoseconds longest{0};
    for (const Operation& each : net.record.operations) {
      const auto key = std::pair{each.replica, each.sequence};
      if (net.graph.names.contains(key) && net.graph.names.at(key) == name)
        longest = std::max(longest, each.duration);
    }
    EXPECT_GT(found->duration, longest) << name;
  }
  EXPECT_EQ(timings.size(), net.graph.names.size());
}

TEST(GraphNames, ParseLayersAndKinds) {
  EXPECT_EQ(graph_path("block.0.conv1.weight"), "block/0/conv1/weight");
  EXPECT_EQ(layer_of("block/0/conv1/weight"), "block/0/conv1");
  EXPECT_EQ(layer_of("conv1/weights/part_0"), "conv1");
  EXPECT_EQ(layer_of("weight"), "");
  EXPECT_EQ(operation_kind("AddmmBackward0"), "Addmm");
  EXPECT_EQ(operation_kind("MaxPool2DWithIndicesBackward0"), "MaxPool2DWithIndices");
  EXPECT_EQ(operation_kind(
                "torch::autograd::CppNode<brigade::layers::(anonymous namespace)::ConvPoolRelu>"),
            "ConvPoolRelu");
  EXPECT_EQ(operation_kind("::"), "Operation");
  UniqueNames names;
  EXPECT_EQ(names.unique("Add"), "Add");
  EXPECT_EQ(names.unique("Add_1"), "Add_1");
  EXPECT_EQ(names.unique("Add"), "Add_2");
}

}  // namespace
}  // namespace brigade::train
