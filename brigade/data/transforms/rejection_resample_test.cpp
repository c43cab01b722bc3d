#include "brigade/data/transforms/rejection_resample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "brigade/data/sources/counter.h"
#include "brigade/data/testing/tf_table_expectations.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Pair = std::tuple<std::int64_t, std::int64_t>;
using Probabilities = std::vector<double>;

/// Of ten numbers in a row six are of class 0 and four of class 1.
const auto kSixToFour = [](const std::int64_t& x) { return (x * 7) % 10 < 6 ? 0 : 1; };

template <std::int64_t classes>
std::int64_t remainder(const std::int64_t& x) {
  return x % classes;
}

void expect_near(const Probabilities& got, const Probabilities& wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t c = 0; c < got.size(); ++c) EXPECT_NEAR(got[c], wanted[c], tolerance) << c;
}

Probabilities class_fractions(const std::vector<Pair>& elements, std::size_t classes) {
  Probabilities fractions(classes);
  for (const auto& [c, x] : elements) fractions[static_cast<std::size_t>(c)] += 1;
  for (double& fraction : fractions) fraction /= static_cast<double>(elements.size());
  return fractions;
}

/// How often an element of each class comes for each time that it is in the input, as parts of the
/// largest: from what TensorFlow computes, which is how likely an element is taken from the input
/// as it is, and how likely those of a class are taken otherwise.
Probabilities as_tensorflow_keeps(double of_any, const Probabilities& of_class,
                                  const Probabilities& initial) {
  double sum = 0;
  for (std::size_t c = 0; c < initial.size(); ++c) sum += initial[c] * of_class[c];
  Probabilities kept;
  for (const double of_this : of_class) kept.push_back(of_any + (1 - of_any) * of_this / sum);
  const double most = *std::max_element(kept.begin(), kept.end());
  for (double& each : kept) each /= most;
  return kept;
}

TEST(RejectionResample, KeepsElementsWithTheProbabilitiesOfTensorFlow) {
  const Table table("resample");
  for (const auto& row : table.at("acceptance")) {
    expect_near(internal::acceptance_for(row.at("initial"), row.at("target")),
                as_tensorflow_keeps(row.at("of_any"), row.at("of_class"), row.at("initial")), 1e-6);
  }
}

TEST(RejectionResample, CountsClassesAsTensorFlowDoes) {
  const auto row = Table("resample").at("estimated");
  const auto estimate_of = [](const std::vector<std::uint64_t>& counts) {
    io::StateTree state = io::StateTree::dict();
    for (const std::uint64_t count : counts) state["counts"].push_back(count);
    return state;
  };
  const std::vector<std::int64_t> classes = row.at("classes");
  internal::Resampler resampler(1, {.initial = {}, .target = {0.5, 0.5}});
  for (std::size_t i = 0; i < classes.size(); ++i) resampler.accepts(classes[i], i);
  io::StateTree state = io::StateTree::dict();
  resampler.save(state);
  EXPECT_EQ(state, estimate_of({34, 18}));
  EXPECT_NEAR(34.0 / 52, row.at("shares")[0], 1e-6);
}

TEST(RejectionResample, MatchesTensorFlowWhereNothingIsRandom) {
  const Table table("resample");
  expect_matches_table(
      table, "range(8), as it is",
      range(8).rejection_resample(remainder<2>, {0.5, 0.5}, {.initial_dist = {0.5, 0.5}}));
  expect_matches_table(
      table, "range(9), the second of three",
      range(9).rejection_resample(remainder<3>, {0, 1, 0}, {.initial_dist = {0.4, 0.3, 0.3}}));
  expect_matches_table(table, "range(9), the last two of three",
                       range(9).rejection_resample(remainder<3>, {0, 0.5, 0.5},
                                                   {.initial_dist = {0.5, 0.25, 0.25}}));
  expect_matches_table(table, "range(8), the second of two, estimated",
                       range(8).rejection_resample(remainder<2>, {0, 1}));
}

TEST(RejectionResample, KeepsTheDatasetContract) {
  const auto given =
      range(60).rejection_resample(kSixToFour, {0.3, 0.7}, {.initial_dist = {0.6, 0.4}});
  expect_contract(given, epoch_of(given), Length::kUnknown);
  const auto estimated = range(60).shuffle(20).rejection_resample(kSixToFour, {0.3, 0.7});
  expect_contract(estimated, epoch_of(estimated), Length::kUnknown);
}

TEST(RejectionResample, ReachesTheTargetAndDropsNoMoreThanNecessary) {
  constexpr std::int64_t kCount = 20'000;
  const Probabilities target{0.5, 0.5};
  const auto given =
      epoch_of(range(kCount).rejection_resample(kSixToFour, target, {.initial_dist = {0.6, 0.4}}));
  const double deviation = std::sqrt(0.25 / static_cast<double>(given.size()));
  expect_near(class_fractions(given, 2), target, 4 * deviation);
  EXPECT_NEAR(static_cast<double>(given.size()), 0.8 * kCount, 300)
      << "2 / 3 of six in ten, and four";
  const auto estimated = epoch_of(range(kCount).rejection_resample(kSixToFour, target));
  expect_near(class_fractions(estimated, 2), target, 5 * deviation);
}

TEST(RejectionResample, IsAFunctionOfTheSeedAndTheEpoch) {
  const auto any = range(100).rejection_resample(kSixToFour, {0.2, 0.8});
  EXPECT_EQ(epoch_of(any, {.seed = 3}), epoch_of(any, {.seed = 3}));
  EXPECT_NE(epoch_of(any, {.seed = 3}), epoch_of(any, {.seed = 4}));
  EXPECT_NE(epoch_of(any, {.seed = 3}), epoch_of(any, {.seed = 3, .epoch = 1}));
  const auto own = range(100).rejection_resample(kSixToFour, {0.2, 0.8}, {.seed = 9});
  EXPECT_EQ(epoch_of(own, {.seed = 3}), epoch_of(own, {.seed = 4}));
}

TEST(RejectionResample, AnElementWithoutAClassFailsAlone) {
  const auto dataset = range(6).rejection_resample(
      [](const std::int64_t& x) -> std::int64_t {
        if (x == 1) throw Error(ErrorCode::kDataLoss, "no class");
        return x == 3 ? 7 : 0;
      },
      {1, 0}, {.initial_dist = {1, 0}});
  auto iterator = dataset.iterator();
  EXPECT_EQ(iterator.next(), Pair(0, 0));
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kDataLoss);
  const io::StateTree state = iterator.save();
  EXPECT_EQ(iterator.next(), Pair(0, 2));
  expect_invalid_argument([&] { iterator.next(); }, "the class is 7");
  EXPECT_EQ(iterator.next(), Pair(0, 4));
  iterator.restore(state);
  EXPECT_EQ(iterator.next(), Pair(0, 2));
}

TEST(RejectionResample, RefusesInvalidDistributions) {
  const auto with = [](Probabilities target, Probabilities initial) {
    return [target, initial] {
      range(3).rejection_resample(remainder<2>, target, {.initial_dist = initial});
    };
  };
  expect_invalid_argument(with({}, {}), "target_dist add up to 0");
  expect_invalid_argument(with({0.5, 0.4}, {}), "add up to 0.9");
  expect_invalid_argument(with({1.5, -0.5}, {}), "probability -0.5");
  expect_invalid_argument(with({0.5, NAN}, {}), "probability");
  expect_invalid_argument(with({0.5, 0.5}, {1}), "2 classes and initial_dist 1");
  expect_invalid_argument(with({0.5, 0.5}, {1, 0}), "class 1");
}

TEST(RejectionResample, RefusesAPositionWithoutItsCounts) {
  const auto two = range(9).rejection_resample(remainder<2>, {0.5, 0.5});
  auto iterator = two.iterator();
  iterator.next();
  io::StateTree state = two.node()->iterator({})->save();
  auto base = two.node()->iterator({});
  state["counts"] = io::StateTree::list();
  expect_invalid_argument([&] { base->restore(state); }, "counts of the 2 classes");
}

TEST(RejectionResample, AnIterationThatFindsNothingCanBeCancelled) {
  const concurrency::CancelToken token;
  auto iterator = counter()
                      .map([token](std::int64_t x) {
                        if (x == 1000) token.cancel();
                        return x;
                      })
                      .rejection_resample([](const std::int64_t&) { return 0; }, {0, 1},
                                          {.initial_dist = {0.5, 0.5}})
                      .iterator({.cancel = token});
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace brigade::data
