// Sessions, metrics, clipping and `fit` under a pipeline, with a cut that is given or chosen in the
// middle of the training: the same bits as on one device.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/comm/stage_passes.h"
#include "brigade/device/device_scope.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/strategies/pipeline_strategy.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/layers/losses.h"
#include "brigade/layers/v1/tf_layers.h"
#include "brigade/metrics/accuracy.h"
#include "brigade/models/mlp.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/clipping.h"
#include "brigade/train/hooks/stop_hooks.h"
#include "brigade/train/model/model.h"
#include "brigade/train/session/session.h"

namespace brigade::train {
namespace {

using distribute::AutomaticCut;
using distribute::OneDeviceStrategy;
using distribute::PipelineCut;
using distribute::PipelineStrategy;
using distribute::PipelineStrategyOptions;
using distribute::Strategy;

constexpr int kParts = 4;
constexpr std::uint64_t kPipedSeed = 11;

using StrategyMaker = std::function<std::unique_ptr<Strategy>()>;

std::unique_ptr<Strategy> on_one_device() {
  return std::make_unique<OneDeviceStrategy>(distribute::OneDeviceOptions{
      .device = "cpu:0", .logical_replicas = kParts, .seed = kPipedSeed});
}

std::unique_ptr<Strategy> in_stages(PipelineCut cut) {
  return std::make_unique<PipelineStrategy>(
      PipelineStrategyOptions{.devices = {"cpu:0", "cpu:1"},
                              .cut = std::move(cut),
                              .micro_batches = kParts,
                              .allow_oversubscription = true,
                              .seed = kPipedSeed,
                              .timeout = std::chrono::seconds(60)});
}

std::vector<std::pair<std::string, StrategyMaker>> pipelines() {
  return {{"given", [] { return in_stages({"dense2"}); }},
          {"chosen", [] { return in_stages(AutomaticCut{.profile_steps = 2}); }}};
}

auto piped_examples() {
  const at::Tensor features = at::arange(30 * 12, at::kFloat).view({30, 12}).sin();
  return input::from_tensor_slices(features, at::arange(30, at::kLong).remainder(3));
}

/// A training in a session, whose batches are shuffled and of which the last one is smaller.
class PipedSession {
 public:
  PipedSession(const StrategyMaker& make, std::shared_ptr<io::FileSystem> files)
      : strategy_(make()),
        files_(std::move(files)),
        model_(strategy_->create<models::Mlp>(
            models::MlpOptions{.inputs = 12, .hidden = {8, 8}, .classes = 3})),
        adam_(strategy_->optimizer(model_, optim::Adam{.learning_rate = 0.01})),
        data_(strategy_->distribute(piped_examples().shuffle(30).repeat(4).batch(8))),
        batches_(data_.iterator()) {
    auto scope = strategy_->scope();
    accuracy_.emplace();
  }

  /// Trains until the step `last`, saving every second step.
  void run(std::int64_t last) {
    MonitoredTrainingSession session(*strategy_,
                                     {.checkpoint_dir = "/run",
                                      .hooks = {StopAtStepHook{.last_step = last}},
                                      .save_checkpoints = {.steps = 2},
                                      .save_summaries = {},
                                      .log_step_count = {}},
                                     {.files = files_});
    while (!session.should_stop()) {
      session.run(batches_, [&](const input::LabeledBatch& local) {
        const at::Tensor logits = model_(local.features);
        const at::Tensor loss = layers::losses::sparse_softmax_cross_entropy(logits, local.labels);
        distribute::Gradients gradients = adam_.aggregate(adam_.compute_gradients(loss));
        optim::clip_by_global_norm_(gradients, 0.5);
        adam_.apply_gradients(gradients);
        accuracy_->update_state(local.labels, logits);
        return loss.detach();
      });
    }
    session.close();
  }

  /// Values, slots and the metric.
  std::vector<at::Tensor> results() const {
    std::vector<at::Tensor> results;
    for (const variables::Variable& variable : model_.variables())
      results.push_back(variable.read());
    for (const auto& [name, slot] : adam_.state().save("adam").slots)
      results.push_back(slot.clone());
    results.push_back(at::scalar_tensor(accuracy_->result(), at::kDouble));
    return results;
  }

 private:
  std::unique_ptr<Strategy> strategy_;
  std::shared_ptr<io::FileSystem> files_;
  distribute::Replicated<models::Mlp> model_;
  distribute::Optimizer adam_;
  distribute::DistributedDataset<input::LabeledBatch> data_;
  distribute::DistributedIterator<input::LabeledBatch> batches_;
  std::optional<metrics::SparseCategoricalAccuracy> accuracy_;
};

void expect_equal(const std::vector<at::Tensor>& ours, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(ours.size(), expected.size());
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(at::equal(ours[i], expected[i])) << i;
}

std::vector<at::Tensor> unbroken(const StrategyMaker& make, std::int64_t steps) {
  PipedSession session(make, std::make_shared<io::MemoryFileSystem>());
  session.run(steps);
  return session.results();
}

TEST(PipelineSessions, TrainAndResumeWithTheBitsOfOneDevice) {
  const auto expected = unbroken(on_one_device, 10);
  for (const auto& [name, make] : pipelines()) {
    SCOPED_TRACE(name);
    expect_equal(unbroken(make, 10), expected);
    // Interrupted while the layers are measured, and after that.
    const auto files = std::make_shared<io::MemoryFileSystem>();
    for (const std::int64_t last : {1, 5, 10}) {
      PipedSession session(make, files);
      session.run(last);
      if (last == 10) expect_equal(session.results(), expected);
    }
  }
}

TEST(PipelineSessions, ContinueAfterOneDeviceAndBack) {
  const auto expected = unbroken(on_one_device, 10);
  for (const auto& [name, make] : pipelines()) {
    SCOPED_TRACE(name);
    const auto files = std::make_shared<io::MemoryFileSystem>();
    PipedSession(on_one_device, files).run(3);
    PipedSession(make, files).run(7);
    PipedSession last(on_one_device, files);
    last.run(10);
    expect_equal(last.results(), expected);
  }
}

/// Layers for `fit`, with their announcements.
at::Tensor piped_classifier(const at::Tensor& x, variables::Mode) {
  at::Tensor net = comm::begin_layer("dense1", x);
  net = layers::v1::dense(net, 8, {.activation = layers::relu});
  return layers::v1::dense(comm::begin_layer("dense2", net), 3);
}

/// The same layers, each in a device scope.
at::Tensor placed_classifier(const at::Tensor& x, variables::Mode) {
  at::Tensor net;
  {
    const auto device = device::with_device("cpu:0");
    net = layers::v1::dense(x, 8, {.activation = layers::relu});
  }
  const auto device = device::with_device("cpu:1");
  return layers::v1::dense(net, 3);
}

using ClassifierOfLayers = at::Tensor (*)(const at::Tensor& x, variables::Mode);

struct FitResult {
  History history;
  std::vector<at::Tensor> values;
};

FitResult fit(const StrategyMaker& make, ClassifierOfLayers classifier = piped_classifier) {
  const auto strategy = make();
  Model model(*strategy, classifier);
  model.compile({.optimizer = optim::Adam{.learning_rate = 0.01},
                 .loss = Loss("sparse_categorical_crossentropy", {.from_logits = true}),
                 .metrics = {"accuracy"}});
  FitOptions options{.epochs = 3, .verbose = Verbose::kSilent};
  options.validation_data = piped_examples().batch(9);
  FitResult result{.history = model.fit(piped_examples().shuffle(30).batch(8), options),
                   .values = {}};
  for (const variables::Variable& variable : model.variables())
    result.values.push_back(variable.read());
  result.values.push_back(model.predict(piped_examples().batch(7)));
  return result;
}

void expect_same_fit(const FitResult& ours, const FitResult& expected) {
  expect_equal(ours.values, expected.values);
  ASSERT_EQ(ours.history.logs.size(), expected.history.logs.size());
  for (const auto& [metric, values] : expected.history.logs)
    EXPECT_EQ(ours.history.at(metric), values) << metric;
}

TEST(PipelineFit, HasTheHistoryOfOneDevice) {
  const FitResult expected = fit(on_one_device);
  for (const auto& [name, make] : pipelines()) {
    SCOPED_TRACE(name);
    expect_same_fit(fit(make), expected);
  }
}

TEST(PipelineFit, OfLayersInDeviceScopesHasTheHistoryOfOneDevice) {
  const auto in_scopes = [] { return in_stages(PipelineCut()); };
  expect_same_fit(fit(in_scopes, placed_classifier), fit(on_one_device, placed_classifier));
}

}  // namespace
}  // namespace brigade::train
