#include "brigade/data/core/byte_size.h"

#include <gtest/gtest.h>

#include "brigade/data/formats/csv_scanner.h"
#include "brigade/data/formats/example.h"
#include "brigade/data/formats/example_parser.h"

namespace brigade::data {
namespace {

const std::string kLong(1000, 'x');

template <class T>
std::uint64_t size_of(const T& element) {
  return ByteSize<T>::of(element);
}

struct Owner {
  std::uint64_t byte_size() const { return 5000; }
};

TEST(ByteSize, CountsTheMemoryAnElementOwns) {
  EXPECT_EQ(size_of(7), sizeof(int));
  EXPECT_GE(size_of(kLong), 1000U);
  EXPECT_GE(size_of(std::vector<std::string>(10, kLong)), 10'000U);
  EXPECT_EQ(size_of(std::vector<std::int64_t>()), sizeof(std::vector<std::int64_t>));
  EXPECT_EQ(size_of(Owner()), 5000U);
}

TEST(ByteSize, CountsTheFieldsOfAnElement) {
  EXPECT_GE(size_of(std::tuple(1, kLong, kLong)), 2000U);
  EXPECT_EQ(size_of(std::tuple<>()), sizeof(std::tuple<>));
  EXPECT_GE(size_of(std::pair(kLong, std::vector<float>(1000))), 5000U);
  EXPECT_GE(size_of(std::optional(kLong)), 1000U);
  EXPECT_EQ(size_of(std::optional<std::string>()), sizeof(std::optional<std::string>));
  EXPECT_GE(size_of(std::vector<std::tuple<int, std::string>>(20, {1, kLong})), 20'000U);
}

TEST(ByteSize, SamplesMoreThanTheFirstOfAList) {
  const CsvRow row{std::int64_t{1}, 2.0F, kLong};
  EXPECT_GE(size_of(row), 1000U);
  EXPECT_LT(size_of(row), 2000U);
}

TEST(ByteSize, CountsTheFeaturesOfExamples) {
  Example example;
  example.features["label"] = Int64List{1};
  example.features["image"] = BytesList{{kLong}};
  EXPECT_GE(size_of(example), 1000U);
  const ParsedExample parsed{{Int64List{1}, BytesList{{kLong}}}};
  EXPECT_GE(size_of(parsed), 1000U);
}

}  // namespace
}  // namespace brigade::data
