#include "brigade/train/graph/model_graph.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "brigade/base/strings.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/regularizers.h"
#include "brigade/optim/sgd.h"
#include "brigade/summary/event_file_reader.h"
#include "brigade/train/callbacks/logging_callbacks.h"
#include "brigade/train/graph/operation_graph.h"
#include "brigade/train/hooks/profiler_hook.h"
#include "brigade/train/session/session.h"
#include "brigade/train/testing/tick_clock.h"
#include "brigade/train/testing/tiny_model.h"
#include "brigade/train/testing/toy_training.h"

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

namespace {

/// All events of one kind in the event files of a directory.
template <class Content>
std::vector<Content> contents(const io::FileSystem& files, const io::Path& folder) {
  std::vector<Content> found;
  for (const io::Path& path : summary::event_files(files, folder)) {
    summary::EventFileReader reader(files, path);
    while (const auto event = reader.next()) {
      if (const auto* content = std::get_if<Content>(&event->content)) found.push_back(*content);
    }
  }
  return found;
}

/// A session of four steps of two replicas that writes summaries to /run.
class GraphOfSession : public testing::Test {
 protected:
  void run(const std::vector<HookPtr>& hooks = {}) {
    MonitoredTrainingSession session(training_.state, {.hooks = hooks, .summary_dir = "/run"},
                                     {.files = files_});
    for (int step = 0; step < 4; ++step) session.run([&] { return training_.step(); });
    session.close();
  }

  const std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  distribute::MirroredStrategy strategy_{distribute::cpus(2)};
  ToyTraining training_{strategy_};
};

TEST_F(GraphOfSession, IsWrittenOnceWithEveryReplica) {
  run();
  const auto graphs = contents<summary::GraphContent>(*files_, "/run");
  ASSERT_EQ(graphs.size(), 1u);
  const auto nodes = summary::decode_graph(graphs[0].bytes);
  for (const char* name : {"hidden", "out", "mean/replica_1", "inputs", "Relu", "replica_1/Relu"}) {
    EXPECT_TRUE(std::any_of(nodes.begin(), nodes.end(), [&](const auto& node) {
      return node.name == name;
    })) << name;
  }
  EXPECT_FALSE(at::hasThreadLocalCallbacks());
}

TEST_F(GraphOfSession, HasTheTimesOfAProfiledStep) {
  run({ProfilerHook{.directory = "/profile", .steps = StepRange{2, 3}}});
  const auto times = contents<summary::RunMetadataContent>(*files_, "/run");
  ASSERT_EQ(times.size(), 1u);
  EXPECT_EQ(times[0].tag, "step_3");
  for (const char* text : {"/device:CPU:1", "replica_1/Relu"})
    EXPECT_NE(times[0].bytes.find(text), std::string::npos) << text;
  const std::string trace = files_->read("/profile/timeline-3.json");
  for (const char* text :
       {"\"aten::relu\"", "\"ReluBackward0\"", "\"replica 1\"", "\"operations\""})
    EXPECT_NE(trace.find(text), std::string::npos) << text;
  EXPECT_FALSE(at::hasThreadLocalCallbacks());
}

TEST(TensorBoard, WritesTheGraphUnlessDisabled) {
  for (const bool writes : {true, false}) {
    const auto folder = std::filesystem::temp_directory_path() /
                        base::str_cat("brigade_graph_", std::int64_t{::getpid()});
    ScriptedFit("val_loss", {0.5, 0.25})
        .run({TensorBoard{.log_dir = folder, .write_graph = writes}});
    const auto graphs = contents<summary::GraphContent>(*io::posix_file_system(), folder / "train");
    std::filesystem::remove_all(folder);
    ASSERT_EQ(graphs.size(), writes ? 1u : 0u);
    if (graphs.empty()) continue;
    const auto nodes = summary::decode_graph(graphs[0].bytes);
    EXPECT_EQ(nodes.front().name, "line/kernel");
    EXPECT_TRUE(std::any_of(nodes.begin(), nodes.end(),
                            [](const auto& node) { return node.name == "line/Addmm"; }));
  }
}

}  // namespace

}  // namespace brigade::train
