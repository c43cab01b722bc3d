#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "brigade/data/core/source.h"
#include "brigade/data/dataset.h"
#include "brigade/data/sources/from_generator.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/tables.h"

/// Helpers of tests that compare with tables of tf.data. For tests only.
namespace brigade::data::testing {

/// The dataset has the elements and the cardinality of the table, and passes `expect_contract`.
template <class T>
void expect_matches_table(const Table& table, const std::string& name, const Dataset<T>& dataset) {
  SCOPED_TRACE(name);
  const bool is_known = table.cardinality(name) != kUnknown;
  EXPECT_EQ(dataset.cardinality(), table.cardinality(name));
  expect_contract(dataset, table.elements<T>(name), is_known ? Length::kKnown : Length::kUnknown);
}

/// Lists of n times the number n, as `lists` in tools/tf_data/windows.py.
inline Dataset<std::vector<std::int64_t>> number_lists() {
  using Numbers = std::vector<std::int64_t>;
  return from_generator<Numbers>([] {
    return [i = std::size_t{0}]() mutable -> std::optional<Numbers> {
      constexpr std::size_t kLengths[] = {1, 6, 2, 4, 3, 7, 1, 5, 4, 0, 2};
      if (i == std::size(kLengths)) return std::nullopt;
      const std::size_t length = kLengths[i++];
      return Numbers(length, static_cast<std::int64_t>(length));
    };
  });
}

/// The numbers 0, 1, ... count - 1, of which those divisible by `bad` fail.
inline Dataset<std::int64_t> numbers_with_errors(std::int64_t count, std::int64_t bad) {
  return range(count).map([bad](std::int64_t x) {
    if (x % bad == 0) throw Error(ErrorCode::kDataLoss, x, " is broken");
    return x;
  });
}

/// All elements, with `missing` instead of those that failed.
template <class T>
std::vector<T> with_errors_as(const T& missing, const Dataset<T>& dataset) {
  auto iterator = dataset.iterator();
  std::vector<T> elements;
  while (true) {
    try {
      auto element = iterator.next();
      if (!element) return elements;
      elements.push_back(std::move(*element));
    } catch (const Error&) {
      elements.push_back(missing);
    }
  }
}

}  // namespace brigade::data::testing
