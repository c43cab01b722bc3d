#include "brigade/metrics/accuracy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <limits>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/metrics/testing/measured_data.h"

namespace brigade::metrics {
namespace {

TEST(SparseCategoricalAccuracy, IsTheFractionOfHighestScoresAtTheLabel) {
  const SparseCategoricalAccuracy accuracy;
  accuracy.update_state(at::tensor({0, 1, 1}),
                        at::tensor({9.0, 1.0, 2.0, 3.0, 5.0, 4.0}).view({3, 2}));
  EXPECT_DOUBLE_EQ(accuracy.result(), 2.0 / 3);
  EXPECT_EQ(accuracy.count(), 3);
  accuracy.update_state(at::empty({0}, at::kLong), at::empty({0, 2}));
  EXPECT_EQ(accuracy.count(), 3);
  EXPECT_EQ(accuracy.name(), "sparse_categorical_accuracy");
}

TEST(SparseCategoricalAccuracy, RefusesOtherShapes) {
  const SparseCategoricalAccuracy accuracy;
  const auto code = [&](const at::Tensor& labels, const at::Tensor& predictions) {
    return distribute::error_from([&] { accuracy.update_state(labels, predictions); }).code();
  };
  EXPECT_EQ(code(at::empty({2}, at::kLong), at::empty({3, 2})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(at::empty({2, 3}, at::kLong), at::empty({2, 2})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(at::empty({2}, at::kLong), at::empty({2})), ErrorCode::kInvalidArgument);
}

TEST(CategoricalAccuracies, MatchKeras) {
  const MeasuredClasses data;
  const at::Tensor& scores = data.predictions;
  EXPECT_NEAR(result_of(CategoricalAccuracy(), data.one_hot, scores), 0.2666666805744171,
              kMeasured);
  EXPECT_NEAR(result_of(CategoricalAccuracy(), data.one_hot, scores, data.weights),
              0.24916934967041016, kMeasured);
  EXPECT_NEAR(result_of(SparseCategoricalAccuracy(), data.labels.unsqueeze(1), scores),
              0.2666666805744171, kMeasured);
  EXPECT_NEAR(result_of(SparseCategoricalAccuracy(), data.labels, scores, data.weights),
              0.24916934967041016, kMeasured);
}

TEST(BinaryAccuracy, MatchesKeras) {
  const MeasuredBinary data;
  EXPECT_NEAR(result_of(BinaryAccuracy(), data.labels, data.predictions), 0.7666666507720947,
              kMeasured);
  EXPECT_NEAR(result_of(BinaryAccuracy(0.3), data.labels, data.predictions), 0.6333333253860474,
              kMeasured);
  EXPECT_NEAR(result_of(BinaryAccuracy(), data.labels, data.predictions.unsqueeze(1), data.weights),
              0.8014172911643982, kMeasured);
  const MeasuredClasses classes;
  EXPECT_NEAR(result_of(BinaryAccuracy(), classes.one_hot, classes.predictions, classes.weights),
              0.47296929359436035, kMeasured)
      << "a weight counts for every value of its example";
}

TEST(Accuracy, ChoosesTheKindByTheShapes) {
  const MeasuredBinary binary;
  const MeasuredClasses classes;
  EXPECT_NEAR(result_of(Accuracy(), binary.labels, binary.predictions), 0.7666666507720947,
              kMeasured);
  EXPECT_NEAR(result_of(Accuracy(), binary.labels.unsqueeze(1), binary.predictions.unsqueeze(1)),
              0.7666666507720947, kMeasured);
  for (const at::Tensor& labels : {classes.one_hot, classes.labels, classes.labels.unsqueeze(1)}) {
    EXPECT_NEAR(result_of(Accuracy(), labels, classes.predictions), 0.2666666805744171, kMeasured);
  }
}

TEST(TopKCategoricalAccuracy, MatchesKeras) {
  const MeasuredClasses data;
  const std::vector<std::pair<std::int64_t, double>> measured = {
      {1, 0.2666666805744171}, {2, 0.5333333611488342}, {3, 0.8666666746139526}, {5, 1.0}};
  for (const auto& [k, value] : measured) {
    EXPECT_NEAR(result_of(TopKCategoricalAccuracy(k), data.one_hot, data.predictions), value,
                kMeasured);
    EXPECT_NEAR(result_of(SparseTopKCategoricalAccuracy(k), data.labels, data.predictions), value,
                kMeasured);
  }
  EXPECT_NEAR(
      result_of(SparseTopKCategoricalAccuracy(2), data.labels, data.predictions, data.weights),
      0.4581619203090668, kMeasured);
}

TEST(TopKCategoricalAccuracy, CountsTiesInAndNonFiniteScoresAsWrong) {
  const at::Tensor ties = at::tensor({1.0, 1.0, 0.0, 2.0}).view({1, 4});
  const auto of = [](std::int64_t label, const at::Tensor& scores) {
    return result_of(SparseTopKCategoricalAccuracy(2), at::tensor({label}), scores);
  };
  EXPECT_EQ(of(0, ties), 1);
  EXPECT_EQ(of(1, ties), 1);
  EXPECT_EQ(of(2, ties), 0);
  EXPECT_EQ(of(3, ties), 1);
  EXPECT_EQ(of(7, ties), 0) << "no such class";
  EXPECT_EQ(of(-1, ties), 0);
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(of(3, at::tensor({1.0, infinity, 0.0, 2.0}).view({1, 4})), 0);
  EXPECT_EQ(of(1, at::tensor({1.0, infinity, 0.0, 2.0}).view({1, 4})), 0);
}

TEST(TopKCategoricalAccuracy, RefusesAKBelowOne) {
  const auto code = [](const std::function<void()>& call) {
    return distribute::error_from(call).code();
  };
  EXPECT_EQ(code([] { TopKCategoricalAccuracy(0); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([] { SparseTopKCategoricalAccuracy(-1); }), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::metrics
