#include "brigade/input/mixup.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "brigade/base/beta_distribution.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/input/one_hot.h"
#include "brigade/input/synthetic.h"

namespace brigade::input {
namespace {

using data::testing::expect_invalid_argument;
using Mix = LabeledBatch (*)(const LabeledBatch&, const MixOptions&, data::ElementContext&);

LabeledBatch mixed_with(std::uint64_t key, Mix mix, const LabeledBatch& batch,
                        const MixOptions& options) {
  base::CounterRng rng(key);
  const concurrency::CancelToken cancel;
  data::ElementContext context{0, 0, rng, cancel};
  return mix(batch, options, context);
}

/// Four images of one value each: 0, 1, 2, 3, of the classes 3, 2, 1, 0.
LabeledBatch four_images(std::int64_t height = 6, std::int64_t width = 7) {
  return {.features = at::arange(4, at::kFloat).view({4, 1, 1, 1}).repeat({1, 2, height, width}),
          .labels = at::tensor({3, 2, 1, 0}, at::kLong)};
}

double largest_error(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(Mixup, EachExampleIsMixedWithTheOneBeforeIt) {
  const LabeledBatch batch = four_images();
  const at::Tensor labels = input::one_hot(batch.labels, 4);
  for (std::uint64_t key = 0; key < 10; ++key) {
    base::CounterRng rng(key);
    const double kept = base::random_beta(0.7, 0.7, rng);
    const LabeledBatch mixed = mixed_with(key, mixup, batch, {.num_classes = 4, .alpha = 0.7});
    EXPECT_LE(largest_error(mixed.features,
                            batch.features * kept + batch.features.roll(1, 0) * (1 - kept)),
              1e-6);
    EXPECT_LE(largest_error(mixed.labels, labels * kept + labels.roll(1, 0) * (1 - kept)), 1e-6);
    EXPECT_LE(largest_error(mixed.labels.sum(1), at::full({4}, 1.0F)), 1e-6);
  }
  EXPECT_TRUE(batch.features.equal(four_images().features)) << "the batch does not change";
}

TEST(Cutmix, LabelsAreMixedByTheAreaOfTheWindow) {
  const LabeledBatch batch = four_images();
  int mixed_batches = 0;
  for (std::uint64_t key = 0; key < 40; ++key) {
    const LabeledBatch mixed = mixed_with(key, cutmix, batch, {.num_classes = 4});
    const at::Tensor is_other = mixed.features.ne(batch.features);
    const double area = is_other[1].to(at::kDouble).mean().item<double>();
    const at::Tensor expected = input::one_hot(batch.labels, 4) * (1 - area) +
                                input::one_hot(batch.labels.roll(1, 0), 4) * area;
    EXPECT_LE(largest_error(mixed.labels, expected), 1e-6);
    EXPECT_TRUE(mixed.features.masked_select(is_other).equal(
        batch.features.roll(1, 0).masked_select(is_other)));
    EXPECT_TRUE(is_other[0].equal(is_other[1])) << "one window for all";
    if (area == 0) continue;
    ++mixed_batches;
    const at::Tensor where = is_other[0][0].nonzero();
    const at::Tensor extent = where.amax(0) - where.amin(0) + 1;
    EXPECT_EQ(extent.prod().item<std::int64_t>(), where.size(0)) << "a rectangle";
  }
  EXPECT_GT(mixed_batches, 25);
}

TEST(Cutmix, TheMeanAreaIsThatOfTheDistribution) {
  const LabeledBatch batch = four_images(40, 40);
  double replaced = 0;
  for (std::uint64_t key = 0; key < 400; ++key)
    replaced += 1 - mixed_with(key, cutmix, batch, {.num_classes = 4}).labels[0][3].item<double>();
  // Uniform areas have a mean of 0.5; windows near an edge are cut off.
  EXPECT_NEAR(replaced / 400, 0.31, 0.03);
}

TEST(Cutmix, KeepsTheDtypeOfTheImages) {
  const LabeledBatch batch{.features = at::randint(0, 255, {3, 3, 8, 8}, at::kByte),
                           .labels = at::tensor({0, 1, 0}, at::kInt)};
  const LabeledBatch mixed = mixed_with(4, cutmix, batch, {.num_classes = 2});
  EXPECT_EQ(mixed.features.scalar_type(), at::kByte);
  EXPECT_FALSE(mixed.features.equal(batch.features));
}

TEST(Mixup, TakesLabelsThatAreDistributions) {
  LabeledBatch batch = four_images();
  const LabeledBatch expected = mixed_with(3, mixup, batch, {.num_classes = 4});
  batch.labels = input::one_hot(batch.labels, 4, at::kDouble);
  for (const std::int64_t classes : {0, 4}) {
    const LabeledBatch mixed = mixed_with(3, mixup, batch, {.num_classes = classes});
    EXPECT_TRUE(mixed.labels.equal(expected.labels));
    EXPECT_TRUE(mixed.features.equal(expected.features));
  }
}

TEST(Mixup, OfOneExampleOrNoneIsTheBatch) {
  for (const Mix mix : {Mix{mixup}, Mix{cutmix}}) {
    const LabeledBatch one{.features = at::rand({1, 3, 4, 4}),
                           .labels = at::tensor({2}, at::kLong)};
    const LabeledBatch mixed = mixed_with(5, mix, one, {.num_classes = 3});
    EXPECT_LE(largest_error(mixed.features, one.features), 1e-6);
    EXPECT_LE(largest_error(mixed.labels, input::one_hot(one.labels, 3)), 1e-6);
    const LabeledBatch none{.features = at::zeros({0, 3, 4, 4}),
                            .labels = at::zeros({0}, at::kLong)};
    EXPECT_EQ(mixed_with(5, mix, none, {.num_classes = 3}).labels.sizes(), at::IntArrayRef({0, 3}));
  }
}

TEST(Mixup, GivesTheSameBitsOnAnyNumberOfThreadsAndAfterAResume) {
  using Values = std::vector<float>;
  const auto pipeline = [](std::int64_t parallelism) {
    const auto mix = [](const LabeledBatch& batch, data::ElementContext& context) {
      const LabeledBatch mixed = context.rng.uniform() < 0.5
                                     ? mixup(batch, {.num_classes = 3, .alpha = 0.4}, context)
                                     : cutmix(batch, {.num_classes = 3}, context);
      const auto* first = mixed.features.const_data_ptr<float>();
      Values values(first, first + mixed.features.numel());
      const auto* label = mixed.labels.const_data_ptr<float>();
      values.insert(values.end(), label, label + mixed.labels.numel());
      return values;
    };
    return synthetic(60, {1, 6, 6}, 3)
        .shuffle(20)
        .repeat(2)
        .batch(16)
        .map(mix, {.parallelism = parallelism});
  };
  const auto expected = data::testing::epoch_of(pipeline(1));
  data::testing::expect_contract(pipeline(1), expected);
  data::testing::expect_contract(pipeline(3), expected);
}

TEST(Mixup, RefusesWhatItCannotMix) {
  const LabeledBatch batch = four_images();
  const auto refuse = [](Mix mix, const LabeledBatch& bad, const MixOptions& options,
                         const char* saying) {
    expect_invalid_argument([&] { mixed_with(0, mix, bad, options); }, saying);
  };
  refuse(mixup, batch, {}, "set num_classes");
  refuse(mixup, batch, {.num_classes = 3}, "label 0 is 3");
  refuse(cutmix, batch, {.num_classes = 4, .alpha = 0}, "alpha is 0");
  refuse(mixup, {batch.features.to(at::kByte), batch.labels}, {.num_classes = 4},
         "to floats first");
  refuse(mixup, {batch.features, at::rand({4, 5})}, {.num_classes = 4}, "over 4 classes");
  refuse(mixup, {batch.features, at::rand({4})}, {.num_classes = 4}, "class numbers [N]");
  refuse(mixup, {batch.features, batch.labels.narrow(0, 0, 3)}, {.num_classes = 4},
         "the same number of examples");
  refuse(cutmix, {at::rand({4, 5}), batch.labels}, {.num_classes = 4}, "[N, ..., height, width]");
}

}  // namespace
}  // namespace brigade::input
