// A user's own types of elements and batches, which name their fields and do nothing else.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "brigade/data/core/source.h"
#include "brigade/data/dataset.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/input/split.h"
#include "brigade/input/tensor_structure.h"
#include "brigade/input/to_device.h"

namespace mine {

/// A batch is the same struct.
struct Pixels {
  at::Tensor image, mask;
  static constexpr auto fields = std::tuple{&Pixels::image, &Pixels::mask};
};

struct SentenceBatch;
struct Sentence {
  using Batch = SentenceBatch;
  at::Tensor words;
  float weight = 0;
  bool is_spoken = false;
  std::string text;
  Pixels page;
  static constexpr auto fields = std::tuple{&Sentence::words, &Sentence::weight,
                                            &Sentence::is_spoken, &Sentence::text, &Sentence::page};
};
struct SentenceBatch {
  using Element = Sentence;
  at::Tensor words, weights, are_spoken;
  std::vector<std::string> texts;
  Pixels pages;
  static constexpr auto fields =
      std::tuple{&SentenceBatch::words, &SentenceBatch::weights, &SentenceBatch::are_spoken,
                 &SentenceBatch::texts, &SentenceBatch::pages};
};

/// A batch without a type of elements.
struct Ids {
  at::Tensor ids;
  std::vector<std::string> names;
  static constexpr auto fields = std::tuple{&Ids::ids, &Ids::names};
};

/// Names its fields, and replaces how it is counted and sliced.
struct Columns {
  at::Tensor values;  // [..., N]
  static constexpr auto fields = std::tuple{&Columns::values};
};

struct Nothing {
  at::Tensor hidden;
};

}  // namespace mine

namespace brigade::data {

template <>
struct Structure<mine::Columns> {
  using Batch = mine::Columns;
  static Batch stack(std::vector<mine::Columns>&& elements) { return elements.front(); }
  static std::int64_t size(const Batch& batch) { return batch.values.size(-1); }
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end) {
    return {batch.values.slice(-1, begin, end)};
  }
};

}  // namespace brigade::data

namespace brigade::input {
namespace {

using data::testing::expect_invalid_argument;
using mine::Pixels;
using mine::Sentence;
using mine::SentenceBatch;

static_assert(data::HasFields<Pixels> && !data::HasFields<mine::Nothing>);
static_assert(std::same_as<data::Structure<Pixels>::Batch, Pixels>);
static_assert(std::same_as<data::Structure<Sentence>::Batch, SentenceBatch>);
static_assert(std::same_as<data::Structure<mine::Nothing>::Batch, std::vector<mine::Nothing>>);
static_assert(std::same_as<data::Unbatch<mine::Ids>::Element, std::tuple<at::Tensor, std::string>>);
static_assert(Splittable<SentenceBatch> && Splittable<mine::Ids> && !Splittable<Sentence>);
static_assert(!Splittable<mine::Nothing>);

/// Sentence i has i + 1 words.
data::Dataset<Sentence> sentences(std::int64_t count) {
  return data::from_indexed<Sentence>(
      count,
      [](std::int64_t i) {
        return Sentence{.words = at::arange(i + 1),
                        .weight = 0.5F * static_cast<float>(i),
                        .is_spoken = i % 2 == 1,
                        .text = std::to_string(i),
                        .page = {at::full({2}, i), at::ones({1})}};
      },
      "sentences");
}

TEST(CustomBatch, IsMappedShuffledBatchedAndTakenApart) {
  const auto batches = sentences(7)
                           .shuffle(4)
                           .map([](Sentence sentence) {
                             sentence.words = sentence.words.narrow(0, 0, 1);
                             return sentence;
                           })
                           .batch(3)
                           .prefetch(2);
  static_assert(std::same_as<decltype(batches)::Element, SentenceBatch>);
  auto iterator = batches.iterator({.seed = 5});
  const SentenceBatch first = *iterator.next();
  EXPECT_EQ(first.words.sizes(), at::IntArrayRef({3, 1}));
  EXPECT_EQ(first.weights.scalar_type(), at::kFloat);
  EXPECT_EQ(first.are_spoken.scalar_type(), at::kBool);
  EXPECT_EQ(first.pages.image.sizes(), at::IntArrayRef({3, 2}));

  auto elements = batches.unbatch().iterator({.seed = 5});
  std::vector<std::string> seen;
  while (const auto sentence = elements.next()) {
    if (seen.size() < first.texts.size()) {
      EXPECT_EQ(sentence->text, first.texts[seen.size()]);
    }
    EXPECT_EQ(sentence->weight, 0.5F * std::stof(sentence->text));
    EXPECT_EQ(sentence->is_spoken, std::stoi(sentence->text) % 2 == 1);
    EXPECT_EQ(sentence->page.image[1].item<float>(), std::stof(sentence->text));
    seen.push_back(sentence->text);
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6"}));
}

TEST(CustomBatch, IsRebatched) {
  const auto same_length = sentences(5).map([](Sentence sentence) {
    sentence.words = at::ones({2});
    return sentence;
  });
  auto expected = same_length.batch(2).iterator();
  auto rebatched = same_length.batch(3).rebatch(2).iterator();
  while (const auto batch = expected.next()) {
    const SentenceBatch found = *rebatched.next();
    EXPECT_TRUE(found.weights.equal(batch->weights));
    EXPECT_EQ(found.texts, batch->texts);
    EXPECT_TRUE(found.pages.image.equal(batch->pages.image));
  }
  EXPECT_FALSE(rebatched.next().has_value());
}

TEST(CustomBatch, IsPaddedFieldByField) {
  auto iterator =
      sentences(3)
          .padded_batch(3, {.padding = {data::TensorPadding{.value = -1}, {}, {}, {}, {}}})
          .iterator();
  const SentenceBatch batch = *iterator.next();
  EXPECT_EQ(batch.words.sizes(), at::IntArrayRef({3, 3}));
  EXPECT_EQ(batch.words[0][2].item<std::int64_t>(), -1);
  EXPECT_EQ(batch.words[2][2].item<std::int64_t>(), 2);
  EXPECT_EQ(batch.weights.sizes(), at::IntArrayRef({3}));
  EXPECT_EQ(batch.texts, (std::vector<std::string>{"0", "1", "2"}));
}

TEST(CustomBatch, ResumesExactly) {
  const auto dataset = sentences(9).shuffle(5).padded_batch(2);
  auto iterator = dataset.iterator();
  iterator.next();
  iterator.next();
  auto resumed = dataset.iterator();
  resumed.restore(iterator.save());
  while (const auto batch = iterator.next()) EXPECT_EQ(resumed.next()->texts, batch->texts);
  EXPECT_FALSE(resumed.next().has_value());
}

TEST(CustomBatch, IsSplitAndCopiedToDevices) {
  const SentenceBatch batch = *sentences(5).padded_batch(5).iterator().next();
  EXPECT_EQ(examples_in(batch), 5);
  const std::vector<SentenceBatch> parts = input::split_batch(batch, 2);
  EXPECT_EQ(parts[1].texts, (std::vector<std::string>{"3", "4"}));
  EXPECT_EQ(parts[1].pages.image.data_ptr(), batch.pages.image[3].data_ptr());
  const SentenceBatch there = to_device(parts[0], c10::Device(c10::kMeta));
  EXPECT_TRUE(there.words.is_meta() && there.are_spoken.is_meta() && there.pages.mask.is_meta());
  EXPECT_EQ(there.texts, parts[0].texts);
}

TEST(CustomBatch, HasTheBytesOfItsFields) {
  const Pixels pixels{at::ones({5}), at::ones({2})};
  EXPECT_EQ(data::ByteSize<Pixels>::of(pixels), sizeof pixels + 7 * sizeof(float));
}

TEST(CustomBatch, RefusesFieldsOfDifferentSizesAndOtherNumbers) {
  expect_invalid_argument(
      [] {
        examples_in(Pixels{at::ones({3}), at::ones({2})});
      },
      "one has 3, another 2");
  expect_invalid_argument(
      [] {
        data::Unbatch<SentenceBatch>::size({.words = at::ones({1, 1}),
                                            .weights = at::ones({1}, at::kDouble),
                                            .are_spoken = at::ones({1}, at::kBool),
                                            .texts = {"a"},
                                            .pages = {at::ones({1}), at::ones({1})}});
      },
      "is float32 [N]; this one is float64 [1]");
}

TEST(CustomBatch, WhatItReplacesIsUsed) {
  const auto parts = input::split_batch(mine::Columns{at::ones({7, 2})}, 2);
  EXPECT_EQ(parts[0].values.sizes(), at::IntArrayRef({7, 1}));
}

}  // namespace
}  // namespace brigade::input
