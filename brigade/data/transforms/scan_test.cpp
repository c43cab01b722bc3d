#include "brigade/data/transforms/scan.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "brigade/data/sources/counter.h"
#include "brigade/data/testing/tf_table_expectations.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

const auto kSum = [](std::int64_t sum, std::int64_t x) { return std::pair(sum + x, sum + x); };

TEST(Scan, MatchesTensorFlow) {
  const Table table("stateful");
  expect_matches_table(table, "range(6).scan(0, sum)", range(6).scan(std::int64_t{0}, kSum));
  const auto endless = range(3).repeat().scan(std::int64_t{0}, kSum);
  EXPECT_EQ(endless.cardinality(), table.cardinality("range(3).repeat().scan(0, sum)"));
  EXPECT_EQ(epoch_of(endless.take(7)),
            table.elements<std::int64_t>("range(3).repeat().scan(0, sum)"));
}

TEST(Scan, MayCountInAnotherType) {
  const auto sums =
      counter(1).take(4).scan(0, [](int sum, auto x) { return std::pair(sum + x, 2 * x); });
  expect_contract(sums, {2, 4, 6, 8});
}

TEST(Scan, StatesOfSeveralPartsResume) {
  using State = std::pair<std::string, std::vector<std::int64_t>>;
  const auto words = range(20).shuffle(5).scan(State("", {}), [](State state, std::int64_t x) {
    state.first += static_cast<char>('a' + x);
    state.second.push_back(x);
    if (state.second.size() > 3) state = State();
    const std::string word = state.first;
    return std::pair(std::move(state), word);
  });
  expect_contract(words, epoch_of(words));
}

/// A state without a codec.
struct Secret {
  std::int64_t sum = 0;
};

TEST(Scan, WithoutACodecResumesByCallingTheFunctionAgain) {
  static_assert(!Encodable<Secret>);
  const auto sums = range(30).shuffle(5).scan(Secret(), [](const Secret& secret, std::int64_t x) {
    return std::pair(Secret{secret.sum + x}, secret.sum);
  });
  expect_contract(sums, epoch_of(range(30).shuffle(5).scan(std::int64_t{0},
                                                           [](std::int64_t sum, std::int64_t x) {
                                                             return std::pair(sum + x, sum);
                                                           })));
}

TEST(Scan, AnElementThatFailsLeavesTheStateAsItWas) {
  const auto sums =
      numbers_with_errors(8, 3).scan(std::int64_t{0}, [](std::int64_t sum, std::int64_t x) {
        if (x == 4) throw Error(ErrorCode::kDataLoss, "four is not liked");
        return std::pair(sum + x, sum + x);
      });
  EXPECT_EQ(with_errors_as<std::int64_t>(-1, sums), (Numbers{-1, 1, 3, -1, -1, 8, -1, 15}));
  auto iterator = sums.iterator();
  for (int i = 0; i < 4; ++i) {
    try {
      iterator.next();
    } catch (const Error&) {
    }
  }
  const std::string message = error_of([&] { iterator.next(); }).what();
  EXPECT_NE(message.find("| scan, element 4 of epoch 0: four is not liked"), std::string::npos)
      << message;
  auto fresh = sums.iterator();
  fresh.restore(iterator.save());
  EXPECT_EQ(fresh.next(), 8);
}

TEST(Scan, AcceptsMoveOnlyElements) {
  const auto owned = range(4).map([](std::int64_t x) { return std::make_unique<std::int64_t>(x); });
  const auto sums =
      owned.scan(std::int64_t{0}, [](std::int64_t sum, std::unique_ptr<std::int64_t> x) {
        return std::pair(sum + *x, std::move(x));
      });
  auto iterator = sums.iterator();
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(**iterator.next(), i);
}

TEST(Scan, RefusesABrokenState) {
  const auto sums = range(4).scan(std::int64_t{0}, kSum);
  auto iterator = sums.node()->iterator({});
  io::StateTree state = iterator->save();
  const auto restore = [&] { iterator->restore(state); };
  state["state"] = "0123";
  EXPECT_EQ(error_of(restore).code(), ErrorCode::kDataLoss);
  state["state"] = "012";
  expect_invalid_argument(restore, "half a byte is missing");
  state["state"] = "0x";
  expect_invalid_argument(restore, "'x' is not a hexadecimal digit");
  EXPECT_EQ(iterator->next(), 0);
}

TEST(Scan, WarnsThatEachShardHasASeparateState) {
  EXPECT_EQ(range(4).scan(std::int64_t{0}, kSum).sharding().counting_step, "scan");
}

}  // namespace
}  // namespace brigade::data
