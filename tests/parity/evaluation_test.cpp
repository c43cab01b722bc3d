// Evaluation on several replicas gives the result of one, also if the last batch is uneven.
#include <gtest/gtest.h>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/models/mnist_cnn.h"
#include "brigade/train/model/evaluate.h"
#include "tests/parity/examples.h"

namespace brigade::parity {
namespace {

TEST(Evaluation, IsTheSameOnAnyNumberOfReplicas) {
  const auto evaluated = [](int replicas) {
    distribute::MirroredStrategy strategy(distribute::cpus(replicas));
    const auto model = strategy.create<models::MnistCnn>();
    return train::evaluate(strategy, model, examples(102).batch(25));  // the last batch has two
  };
  const train::EvaluationResult one = evaluated(1);
  EXPECT_EQ(one.examples, 102);
  for (const int replicas : {2, 3}) {
    const train::EvaluationResult many = evaluated(replicas);
    EXPECT_EQ(many.examples, 102);
    EXPECT_EQ(many.accuracy, one.accuracy);
    EXPECT_NEAR(many.loss, one.loss, 1e-6);
  }
}

}  // namespace
}  // namespace brigade::parity
