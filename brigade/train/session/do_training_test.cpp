#include "brigade/train/session/do_training.h"

#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::train {
namespace {

UpdateFunction losses(std::vector<double> values) {
  return [values, next = std::size_t{0}]() mutable -> std::optional<at::Tensor> {
    if (next == values.size()) return std::nullopt;
    return at::scalar_tensor(values[next++], at::kDouble);
  };
}

TEST(DoTraining, RunsToTheEndOfTheDataAndReportsEveryNthStepFromTheFirst) {
  std::vector<std::pair<std::int64_t, double>> reports;
  const auto result =
      do_training(losses({5, 4, 3, 2, 1}), {.log_every = 2, .report = [&](auto step, double loss) {
                                              reports.emplace_back(step, loss);
                                            }});
  EXPECT_EQ(result.steps, 5);
  EXPECT_EQ(result.first_loss, 5.0);
  EXPECT_EQ(result.final_loss, 1.0);
  EXPECT_EQ(reports, (std::vector<std::pair<std::int64_t, double>>{{0, 5.0}, {2, 3.0}, {4, 1.0}}));
}

TEST(DoTraining, StopsAfterTheGivenNumberOfSteps) {
  const auto result = do_training(losses({3, 2, 1}), {.steps = 2, .report = [](auto, double) {}});
  EXPECT_EQ(result.steps, 2);
  EXPECT_EQ(result.final_loss, 2.0);
}

TEST(DoTraining, NoDataMeansNoLoss) {
  const auto result = do_training(losses({}));
  EXPECT_EQ(result.steps, 0);
  EXPECT_FALSE(result.first_loss || result.final_loss);
}

TEST(DoTraining, ALossThatIsNotFiniteThrowsWithTheStep) {
  try {
    do_training(losses({1, std::numeric_limits<double>::quiet_NaN()}),
                {.log_every = 1, .report = [](auto, double) {}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_NE(std::string(error.what()).find("step 1"), std::string::npos) << error.what();
  }
}

TEST(DoTraining, RefusesAReportIntervalOfZero) {
  EXPECT_THROW(do_training(losses({1}), {.log_every = 0}), Error);
}

}  // namespace
}  // namespace brigade::train
