#include "brigade/ps/store/gradient_offers.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "brigade/base/error.h"

namespace brigade::ps {
namespace {

GradientOffers::Offer offer_of(std::int64_t step, int worker, double gradient) {
  return {.step = step,
          .from = {.worker = worker, .index = 0},
          .gradients = std::make_shared<std::vector<checkpoint::NamedTensor>>(
              std::vector<checkpoint::NamedTensor>{{"w", at::full({2}, gradient, at::kDouble)}})};
}

TEST(GradientOffers, ADecisionGetsItsGradientsInItsOrder) {
  GradientOffers offers;
  for (const int worker : {2, 0, 1}) offers.put(offer_of(5, worker, worker));
  offers.put({.step = 5,
              .from = {.worker = 3, .index = 0},
              .gradients = std::make_shared<std::vector<checkpoint::NamedTensor>>()});
  const auto gradients =
      offers.gradients_of({.step = 5, .contributions = {{0, 0}, {2, 0}, {3, 0}}});
  ASSERT_EQ(gradients.size(), 1);
  ASSERT_EQ(gradients.at("w").size(), 2) << "worker 3 has none of it";
  EXPECT_EQ(gradients.at("w")[0].values[0].item<double>(), 0);
  EXPECT_EQ(gradients.at("w")[1].values[0].item<double>(), 2);
  EXPECT_THROW(offers.gradients_of({.step = 5, .contributions = {{0, 1}}}), Error);
  EXPECT_THROW(offers.gradients_of({.step = 6, .contributions = {{0, 0}}}), Error);
}

TEST(GradientOffers, TheLaterOneReplacesTheEarlierAndDecidedStepsGo) {
  GradientOffers offers;
  offers.put(offer_of(1, 0, 1));
  offers.put(offer_of(1, 0, 7));
  offers.put(offer_of(2, 0, 3));
  EXPECT_EQ(offers.bytes(), 2 * 2 * sizeof(double));
  EXPECT_EQ(offers.gradients_of({.step = 1, .contributions = {{0, 0}}})
                .at("w")[0]
                .values[0]
                .item<double>(),
            7);
  offers.drop_before(2);
  ASSERT_EQ(offers.offers().size(), 1);
  EXPECT_EQ(offers.offers()[0].step, 2);
}

}  // namespace
}  // namespace brigade::ps
