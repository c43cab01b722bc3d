#include "brigade/train/model/labeled_data.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <vector>

#include "brigade/data/core/source.h"
#include "brigade/train/testing/tiny_model.h"

namespace brigade::train {
namespace {

using distribute::cpus;
using distribute::error_from;

LabeledData numbers(std::int64_t begin, std::int64_t end) {
  return {at::arange(begin, end, at::kDouble).unsqueeze(1), at::arange(begin, end, at::kDouble)};
}

std::vector<double> labels_of(const LabeledData& data) {
  const distribute::MirroredStrategy strategy(cpus(1));
  std::vector<double> labels;
  for (const auto& batch : data.distributed(strategy, {})) {
    for (std::int64_t i = 0; i < batch[0].labels.numel(); ++i)
      labels.push_back(batch[0].labels[i].item<double>());
  }
  return labels;
}

TEST(LabeledData, SplitsOffTheLastExamplesAsKeras) {
  const auto [first, last] = numbers(0, 10).split_off_last(0.25);  // floor(7.5) are left
  EXPECT_EQ(labels_of(first), (std::vector<double>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(labels_of(last), (std::vector<double>{7, 8, 9}));
}

TEST(LabeledData, RefusesInvalidSplits) {
  const auto code_of = [](const LabeledData& data, double fraction) {
    return error_from([&] { data.split_off_last(fraction); }).code();
  };
  for (const double fraction : {-0.1, 0.0, 1.0, 1.5})
    EXPECT_EQ(code_of(numbers(0, 10), fraction), ErrorCode::kInvalidArgument) << fraction;
  EXPECT_EQ(code_of(numbers(0, 1), 0.5), ErrorCode::kInvalidArgument);
  const LabeledData dataset(data::Dataset<input::LabeledBatch>(
      data::range(3).map([](std::int64_t) { return input::LabeledBatch{}; })));
  EXPECT_EQ(code_of(dataset, 0.5), ErrorCode::kInvalidArgument);
}

TEST(LabeledData, GlobalBatchesAreThoseThatAreDistributed) {
  std::vector<std::int64_t> sizes;
  for (const auto& batch : numbers(0, 10).global_batches({.batch_size = 4}))
    sizes.push_back(batch.labels.size(0));
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{4, 4, 2}));
  const auto dataset = numbers(0, 10).global_batches({});
  EXPECT_EQ(LabeledData(dataset).global_batches({}).node(), dataset.node());
  const auto code_of = [](const LabeledData& data, const LabeledData::Batching& batching) {
    return error_from([&] { data.global_batches(batching); }).code();
  };
  EXPECT_EQ(code_of(dataset, {.batch_size = 4}), ErrorCode::kInvalidArgument);
  const distribute::MirroredStrategy strategy(cpus(2));
  EXPECT_EQ(code_of(strategy.distribute(dataset), {}), ErrorCode::kInvalidArgument);
}

TEST(LabeledData, ValidationSplitEqualsExplicitValidationData) {
  const auto fitted = [](const LabeledData& data, FitOptions options) {
    distribute::MirroredStrategy strategy(cpus(2));
    Model model(strategy, line());
    model.compile({.optimizer = optim::Sgd{.learning_rate = 0.01}, .loss = "mse"});
    options.epochs = 2;
    options.batch_size = 4;
    options.verbose = Verbose::kSilent;
    return model.fit(data, options).logs;
  };
  const auto expected = fitted(numbers(0, 15), {.validation_data = numbers(15, 20)});
  ASSERT_TRUE(expected.contains("val_loss"));
  EXPECT_EQ(fitted(numbers(0, 20), {.validation_split = 0.25}), expected);
  EXPECT_EQ(error_from([&] {
              fitted(numbers(0, 20), {.validation_data = numbers(0, 2), .validation_split = 0.25});
            }).code(),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::train
