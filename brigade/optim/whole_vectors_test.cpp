#include "brigade/optim/whole_vectors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace brigade::optim {

namespace {

UpdateArguments arguments_of(const std::vector<std::int64_t>& sizes, at::ScalarType dtype) {
  UpdateArguments arguments{.slots = std::vector<std::vector<at::Tensor>>(1), .step = 3};
  for (const std::int64_t size : sizes) {
    arguments.parameters.push_back(at::arange(size, dtype));
    arguments.gradients.push_back(at::full({size}, 2, dtype));
    arguments.slots[0].push_back(at::full({size}, 5, dtype));
  }
  return arguments;
}

class WholeVectors : public testing::TestWithParam<at::ScalarType> {};

TEST_P(WholeVectors, EachRangeFillsWholeVectorsAndEachElementIsUpdated) {
  const UpdateArguments arguments = arguments_of({1, 7, 32, 33, 100}, GetParam());
  update_in_whole_vectors(arguments, [](const UpdateArguments& divided) {
    EXPECT_EQ(divided.step, 3);
    ASSERT_EQ(divided.gradients.size(), divided.parameters.size());
    ASSERT_EQ(divided.slots[0].size(), divided.parameters.size());
    for (std::size_t i = 0; i < divided.parameters.size(); ++i) {
      EXPECT_EQ(divided.parameters[i].nbytes() % 64, 0u);
      divided.parameters[i].add_(divided.gradients[i]).add_(divided.slots[0][i]);
      divided.slots[0][i].add_(1);
    }
  });
  for (std::size_t i = 0; i < arguments.parameters.size(); ++i) {
    const std::int64_t size = arguments.parameters[i].numel();
    EXPECT_TRUE(arguments.parameters[i].equal(at::arange(7, size + 7, GetParam()))) << size;
    EXPECT_TRUE(arguments.gradients[i].equal(at::full({size}, 2, GetParam()))) << size;
    EXPECT_TRUE(arguments.slots[0][i].equal(at::full({size}, 6, GetParam()))) << size;
  }
}

TEST_P(WholeVectors, ElementsBesideARangeStayAsTheyAre) {
  const at::Tensor storage = at::zeros({64}, GetParam());
  const at::Tensor gradient = at::full({21}, 1, GetParam());
  update_in_whole_vectors({.parameters = {storage.narrow(0, 16, 21)}, .gradients = {gradient}},
                          [](const UpdateArguments& divided) {
                            for (const at::Tensor& each : divided.parameters) each.add_(1);
                          });
  EXPECT_EQ(storage.narrow(0, 0, 16).sum().item<double>(), 0);
  EXPECT_EQ(storage.narrow(0, 16, 21).sum().item<double>(), 21);
  EXPECT_EQ(storage.narrow(0, 37, 27).sum().item<double>(), 0);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, WholeVectors,
                         testing::Values(at::kFloat, at::kDouble, at::kBFloat16));

}  // namespace

}  // namespace brigade::optim
