#include "brigade/variables/partitioner.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>

#include "brigade/base/error.h"

namespace brigade::variables {
namespace {

using Sizes = std::vector<std::int64_t>;

void expect_options_refused(const std::function<void()>& call, const std::string& part_of_message) {
  try {
    call();
    ADD_FAILURE() << "nothing thrown; expected: " << part_of_message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find(part_of_message), std::string::npos) << error.what();
  }
}

TEST(FixedSizePartitioner, SplitsOneAxis) {
  EXPECT_EQ(fixed_size_partitioner(3)({10, 4}, at::kFloat), (Sizes{3, 1}));
  EXPECT_EQ(fixed_size_partitioner(3, 1)({10, 4}, at::kFloat), (Sizes{1, 3}));
}

TEST(FixedSizePartitioner, NeverMakesMorePartsThanElements) {
  EXPECT_EQ(fixed_size_partitioner(8)({3, 2}, at::kFloat), (Sizes{3, 1}));
  EXPECT_EQ(fixed_size_partitioner(8)({0, 2}, at::kFloat), (Sizes{1, 1}));
}

// The numbers of this and the next test are TensorFlow 2.21's for the same arguments.
TEST(VariableAxisSizePartitioner, KeepsPartsWithinTheSize) {
  const auto parts = [](const VariableAxisSizeOptions& options, Sizes shape, at::ScalarType dtype) {
    return variable_axis_size_partitioner(options)(shape, dtype);
  };
  EXPECT_EQ(parts({.max_part_bytes = 1024}, {1024, 4}, at::kFloat), (Sizes{16, 1}));
  EXPECT_EQ(parts({.max_part_bytes = 1000}, {1024, 4}, at::kFloat), (Sizes{17, 1}));
  EXPECT_EQ(parts({.max_part_bytes = 1024}, {1024, 4}, at::kDouble), (Sizes{32, 1}));
  EXPECT_EQ(parts({.max_part_bytes = 1024, .max_parts = 5}, {1024, 4}, at::kFloat), (Sizes{5, 1}));
  EXPECT_EQ(parts({.axis = 1, .max_part_bytes = 1024}, {1024, 4}, at::kFloat), (Sizes{1, 4}))
      << "a slice of 4096 bytes alone is too large already";
  EXPECT_EQ(parts({}, {1024, 4}, at::kFloat), (Sizes{1, 1}));
}

TEST(MinMaxVariablePartitioner, KeepsPartsAboveTheSize) {
  const auto parts = [](const MinMaxOptions& options, Sizes shape, at::ScalarType dtype) {
    return min_max_variable_partitioner(options)(shape, dtype);
  };
  EXPECT_EQ(parts({.max_parts = 100}, {1024, 1024}, at::kFloat), (Sizes{16, 1}));
  EXPECT_EQ(parts({.max_parts = 100}, {1025, 1024}, at::kFloat), (Sizes{17, 1}));
  EXPECT_EQ(parts({.max_parts = 8}, {1024, 1024}, at::kFloat), (Sizes{8, 1}));
  EXPECT_EQ(parts({.max_parts = 100, .axis = 1}, {1024, 1024}, at::kDouble), (Sizes{1, 32}));
  EXPECT_EQ(parts({.max_parts = 100, .min_part_bytes = 1}, {3, 7}, at::kFloat), (Sizes{3, 1}));
  EXPECT_EQ(parts({.max_parts = 100}, {10}, at::kFloat), (Sizes{1}));
}

TEST(Partitioner, RefusesAnAxisThatTheVariableLacks) {
  expect_options_refused([] { fixed_size_partitioner(2, 2)({3, 4}, at::kFloat); }, "no axis 2");
  expect_options_refused(
      [] {
        variable_axis_size_partitioner({.axis = -1})({3, 4}, at::kFloat);
      },
      "no axis -1");
  expect_options_refused([] { min_max_variable_partitioner({})({}, at::kFloat); }, "no axis 0");
}

TEST(Partitioner, RefusesSizesAndNumbersThatAreNotPositive) {
  expect_options_refused([] { fixed_size_partitioner(0); }, "parts is 0");
  expect_options_refused([] { variable_axis_size_partitioner({.max_part_bytes = 0}); },
                         "max_part_bytes is 0");
  expect_options_refused([] { variable_axis_size_partitioner({.max_parts = -1}); },
                         "max_parts is -1");
  expect_options_refused([] { min_max_variable_partitioner({.max_parts = 0}); }, "max_parts is 0");
  expect_options_refused([] { min_max_variable_partitioner({.min_part_bytes = 0}); },
                         "min_part_bytes is 0");
}

TEST(PartSizes, DifferByAtMostOneLargerFirst) {
  EXPECT_EQ(part_sizes(10, 3), (Sizes{4, 3, 3}));
  EXPECT_EQ(part_sizes(9, 3), (Sizes{3, 3, 3}));
  EXPECT_EQ(part_sizes(2, 3), (Sizes{1, 1, 0}));
  for (std::int64_t parts = 1; parts < 20; ++parts) {
    const auto sizes = part_sizes(101, parts);
    EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}), 101);
    EXPECT_LE(sizes.front() - sizes.back(), 1);
  }
  expect_options_refused([] { part_sizes(10, 0); }, "parts is 0");
  expect_options_refused([] { part_sizes(-1, 2); }, "size is -1");
}

}  // namespace
}  // namespace brigade::variables
