#include "brigade/metrics/make_metric.h"

#include <gtest/gtest.h>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/metrics/testing/measured_data.h"

namespace brigade::metrics {
namespace {

TEST(MakeMetric, AcceptsKerasNames) {
  const MeasuredBinary data;
  const auto of = [&](const char* name) {
    return result_of(*make_metric(name), data.labels, data.predictions);
  };
  for (const char* name : {"accuracy", "acc", "Accuracy", "binary_accuracy", "BinaryAccuracy"})
    EXPECT_NEAR(of(name), 0.7666666507720947, kMeasured) << name;
  for (const char* name : {"auc", "AUC"}) EXPECT_NEAR(of(name), 0.7756696939468384, kMeasured);
  EXPECT_NEAR(of("precision"), 0.71875, kMeasured);
  EXPECT_NEAR(of("Recall"), 0.8214285969734192, kMeasured);
  for (const char* name : {"mse", "MSE", "mean_squared_error"}) EXPECT_EQ(of(name), of("mse"));
  EXPECT_NE(of("mse"), of("mae"));
}

TEST(MakeMetric, CreatesEveryListedMetric) {
  for (const std::string& name : metric_names()) EXPECT_EQ(make_metric(name)->name(), name);
  EXPECT_EQ(make_metric("mse")->name(), "mse") << "its name is the requested one";
}

TEST(MakeMetric, SuggestsTheNearestNameForAnUnknownOne) {
  const Error error = distribute::error_from([] { make_metric("acuracy"); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(distribute::mentions(error, "did you mean 'accuracy'? Metrics: accuracy, auc, "))
      << error.what();
  EXPECT_EQ(distribute::error_from([] { make_metric(""); }).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::metrics
