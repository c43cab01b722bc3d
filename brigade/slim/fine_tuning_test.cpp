#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "brigade/checkpoint/saver.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/optim/adam.h"
#include "brigade/slim/assign_from_checkpoint.h"
#include "brigade/slim/layers.h"
#include "brigade/slim/train_op.h"

namespace brigade::slim {
namespace {

using distribute::cpus;
using distribute::error_from;
using distribute::mentions;
using distribute::MirroredStrategy;

constexpr std::int64_t kBatch = 16;

at::Tensor images(std::int64_t batch) {
  const auto begin = static_cast<double>(batch * kBatch * 36);
  return at::arange(begin, begin + kBatch * 36, at::kFloat).mul(0.37).sin().view({kBatch, 1, 6, 6});
}

/// The same two batches in turn.
GlobalBatchSource<at::Tensor> image_batches(std::int64_t count) {
  return [count, next = std::int64_t{0}]() mutable -> std::optional<at::Tensor> {
    if (next == count) return std::nullopt;
    return images(next++ % 2);
  };
}

/// A trunk with batch norm and dense weights, and a last layer for `classes`: the quadrant with the
/// largest mean.
TotalLossFunction<at::Tensor> model_with(std::int64_t classes, Mode trunk) {
  return [=](const at::Tensor& batch) {
    const auto net_scope = variable_scope("net");
    const auto mode = arg_scope<batch_norm>({.mode = trunk});
    at::Tensor net =
        slim::conv2d(batch, 4, 3, {.normalizer = batch_normalizer(), .scope = "conv1"});
    net = slim::flatten(slim::avg_pool2d(net, 3, {.stride = 3}));
    net = slim::fully_connected(net, 8, {.scope = "fc1"});
    const at::Tensor logits =
        slim::fully_connected(net, classes, {.activation = nullptr, .scope = "logits"});
    const at::Tensor quadrants = batch.unfold(2, 3, 3).unfold(3, 3, 3).mean({4, 5}).flatten(1);
    losses::sparse_softmax_cross_entropy(logits, quadrants.slice(1, 0, classes).argmax(1));
    return losses::get_total_loss();
  };
}

using Values = std::map<std::string, at::Tensor>;
Values values_of(distribute::Strategy& strategy, std::string_view scope) {
  const auto opened = strategy.scope();
  Values values;
  for (const Variable& each : get_model_variables(scope)) values[each.name()] = each.read();
  return values;
}

/// A checkpoint of a model that was trained for two classes, and its variables.
struct Pretrained {
  Pretrained() {
    MirroredStrategy strategy(cpus(2));
    const auto train_op = create_train_op<at::Tensor>(strategy, model_with(2, Mode::kTraining),
                                                      image_batches(6), optim::Adam{});
    while (train_op()) {
    }
    const auto scope = strategy.scope();
    checkpoint::Saver(files, {.directory = "/pretrained"})
        .save(10, {.variables = get_model_variables()});
    values = values_of(strategy, "net");
  }
  std::shared_ptr<io::MemoryFileSystem> files = std::make_shared<io::MemoryFileSystem>();
  Values values;
};

bool has_equal_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && at::equal(a.view(at::kInt), b.view(at::kInt));
}

/// Trains a new last layer of three classes with these options; the trunk must keep its bits.
void fine_tune(const TrainOpOptions& options) {
  const Pretrained pretrained;
  MirroredStrategy strategy(cpus(2));
  const auto train_op =
      create_train_op<at::Tensor>(strategy, model_with(3, Mode::kEvaluation), image_batches(20),
                                  optim::Adam{.learning_rate = 0.1}, options);
  {
    const auto scope = strategy.scope();
    const auto report =
        assign_from_checkpoint("/pretrained", get_model_variables(),
                               {.exclude = {"net/logits"}, .files = pretrained.files});
    EXPECT_EQ(report.restored.size(), 6u);
    EXPECT_EQ(report.unused_in_checkpoint,
              (std::vector<std::string>{"net/logits/biases", "net/logits/weights"}));
  }
  const Values before = values_of(strategy, "net");
  std::vector<double> losses;
  while (const auto loss = train_op()) losses.push_back(loss->item<double>());
  const Values after = values_of(strategy, "net");
  ASSERT_EQ(after.size(), 8u);
  for (const auto& [name, value] : after) {
    const bool is_new = name.starts_with("net/logits");
    EXPECT_NE(has_equal_bits(value, before.at(name)), is_new) << name;
    if (is_new) continue;
    EXPECT_TRUE(has_equal_bits(value, pretrained.values.at(name))) << name;
  }
  // Of the same batch.
  EXPECT_LT(losses.back(), 0.9 * losses.at(1));
}

TEST(FineTuning, ANewLastLayerTrainsAndTheRestKeepsItsBits) {
  fine_tune({.variables_to_train = {"net/logits"}});
}

TEST(FineTuning, FrozenGroupsKeepTheirBits) {
  fine_tune({.groups = {{.names = {"net/conv1*", "net/fc1*"}, .frozen = true}}});
}

TEST(FineTuning, WithoutFreezingEverythingTrains) {
  const Pretrained pretrained;
  MirroredStrategy strategy(cpus(2));
  const auto train_op = create_train_op<at::Tensor>(strategy, model_with(3, Mode::kTraining),
                                                    image_batches(2), optim::Adam{});
  {
    const auto scope = strategy.scope();
    assign_from_checkpoint("/pretrained", get_model_variables(),
                           {.exclude = {"net/logits"}, .files = pretrained.files});
  }
  while (train_op()) {
  }
  for (const auto& [name, value] : values_of(strategy, "net")) {
    if (pretrained.values.at(name).sizes() != value.sizes()) continue;
    EXPECT_FALSE(has_equal_bits(value, pretrained.values.at(name))) << name;
  }
}

TEST(FineTuning, WeightsOfAnotherNumberOfClassesAreRefusedByName) {
  const Pretrained pretrained;
  MirroredStrategy strategy(cpus(1));
  const auto train_op = create_train_op<at::Tensor>(strategy, model_with(3, Mode::kTraining),
                                                    image_batches(1), optim::Adam{});
  const auto scope = strategy.scope();
  const Error error = error_from([&] {
    assign_from_checkpoint("/pretrained", get_model_variables(), {.files = pretrained.files});
  });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "'net/logits/weights' is Float [3, 8]"));
  EXPECT_TRUE(mentions(error, "'net/logits/biases' is Float [3]"));
}

}  // namespace
}  // namespace brigade::slim
