#include "brigade/data/sources/from_generator.h"

#include <gtest/gtest.h>

#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

std::function<std::optional<std::int64_t>()> squares(std::int64_t count) {
  return [count, i = std::int64_t{0}]() mutable -> std::optional<std::int64_t> {
    if (i == count) return std::nullopt;
    ++i;
    return (i - 1) * (i - 1);
  };
}

TEST(FromGenerator, KeepsTheDatasetContract) {
  expect_contract(from_generator<std::int64_t>([] { return squares(5); }), {0, 1, 4, 9, 16},
                  Length::kUnknown);
  expect_contract(from_generator<std::int64_t>([] { return squares(0); }), {}, Length::kUnknown);
}

TEST(FromGenerator, MayDependOnTheEpoch) {
  const auto numbers = from_generator<std::int64_t>([](const IteratorOptions& options) {
    return squares(3 + static_cast<std::int64_t>(options.epoch));
  });
  expect_contract(numbers, {0, 1, 4}, Length::kUnknown);
  EXPECT_EQ(epoch_of(numbers, {.epoch = 1}), (Numbers{0, 1, 4, 9}));
}

/// Counts how often it is asked, which a restore must not raise.
class Counting final : public Generator<std::int64_t> {
 public:
  explicit Counting(std::shared_ptr<int> asked) : asked_(std::move(asked)) {}
  std::optional<std::int64_t> next() override {
    ++*asked_;
    return at_ < 6 ? std::optional(at_++) : std::nullopt;
  }
  io::StateTree save() const override { return at_; }
  void restore(const io::StateTree& state) override { at_ = state.as_int64(); }

 private:
  std::shared_ptr<int> asked_;
  std::int64_t at_ = 0;
};

TEST(FromGenerator, AGeneratorThatSavesResumesDirectly) {
  const auto asked = std::make_shared<int>(0);
  const auto numbers =
      from_generator<std::int64_t>([asked] { return std::make_unique<Counting>(asked); });
  expect_contract(numbers, {0, 1, 2, 3, 4, 5}, Length::kUnknown);
  auto iterator = numbers.iterator();
  for (int i = 0; i < 4; ++i) iterator.next();
  const io::StateTree state = iterator.save();
  *asked = 0;
  auto fresh = numbers.iterator();
  fresh.restore(state);
  EXPECT_EQ(*asked, 0);
  EXPECT_EQ(fresh.next(), 4);
}

TEST(FromGenerator, IsNotCalledAfterItsEnd) {
  const auto asked = std::make_shared<int>(0);
  const auto numbers =
      from_generator<std::int64_t>([asked] { return std::make_unique<Counting>(asked); });
  auto iterator = numbers.iterator();
  rest_of(iterator);
  const int asked_to_end = *asked;
  EXPECT_EQ(iterator.next(), std::nullopt);
  auto fresh = numbers.iterator();
  fresh.restore(iterator.save());
  EXPECT_EQ(fresh.next(), std::nullopt);
  EXPECT_EQ(*asked, asked_to_end);
}

TEST(FromGenerator, ContinuesAfterAnElementThatFails) {
  const auto fragile = from_generator<int>(
      [] {
        return [i = 0]() mutable -> std::optional<int> {
          if (++i == 2) throw Error(ErrorCode::kDataLoss, "two is broken");
          return i < 4 ? std::optional(i) : std::nullopt;
        };
      },
      "fragile");
  auto iterator = fragile.iterator();
  EXPECT_EQ(iterator.next(), 1);
  const Error error = error_of([&] { iterator.next(); });
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_EQ(std::string(error.what()), "fragile, element 1 of epoch 0: two is broken");
  auto fresh = fragile.iterator();
  fresh.restore(iterator.save());
  EXPECT_EQ(fresh.next(), 3);
  EXPECT_EQ(fresh.next(), std::nullopt);
}

TEST(FromGenerator, RefusesAPositionPastItsEnd) {
  const auto longer = from_generator<std::int64_t>([] { return squares(5); });
  const auto fewer = from_generator<std::int64_t>([] { return squares(4); }, "fewer");
  auto iterator = longer.node()->iterator({});
  iterator->skip(5);
  expect_invalid_argument([&] { fewer.node()->iterator({})->restore(iterator->save()); },
                          "after element 5 of fewer, which now gives fewer");
}

}  // namespace
}  // namespace brigade::data
