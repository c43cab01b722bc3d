#include "brigade/base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <random>
#include <set>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::base {
namespace {

using Words = std::array<std::uint32_t, 4>;
constexpr std::uint64_t kKey = 0x0123456789abcdefu;

static_assert(std::uniform_random_bit_generator<CounterRng>);

// The known answers of the Random123 library (kat_vectors).
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Golden values: saved jobs rely on them. Never change them.
TEST(MixSeed, IsTheSameForever) {
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  EXPECT_EQ(mix_seed(0, 0), 0xa706dd2f4d197e6fu);
  EXPECT_EQ(mix_seed(1, 2), 0xbcd9dbb49673066bu);
  EXPECT_EQ(mix_seed(2, 1), 0xe06dd043328bd285u);
  EXPECT_EQ(mix_seed(kMost, kMost), 0x6309143e67a47936u);
}

TEST(DeriveSeed, IsTheSameForever) {
  EXPECT_EQ(derive_seed(0, "", 0, 0), 0x104685e6d1dc1692u);
  EXPECT_EQ(derive_seed(42, "shuffle", 1, 7), 0xc387964825f84f77u);
  EXPECT_EQ(derive_seed(~std::uint64_t{0}, "dropout/layer1", 3, std::uint64_t{1} << 40),
            0x7db170ada9bf7059u);
}

TEST(DeriveSeed, DiffersInEachArgument) {
  std::set<std::uint64_t> seeds;
  for (const char* name : {"a", "b", "ab", "ba"}) {
    for (std::uint64_t i = 0; i < 1000; ++i) {
      seeds.insert(derive_seed(i, name, 0, 0));
      seeds.insert(derive_seed(0, name, i + 1, 0));
      seeds.insert(derive_seed(0, name, 0, i + 1));
    }
  }
  EXPECT_EQ(seeds.size(), 12000u);
}

TEST(CounterRng, IsTheSameForever) {
  CounterRng rng(kKey);
  EXPECT_EQ(rng(), 0xc58cb04bb850222eu);
  EXPECT_EQ(rng(), 0x7a84fff914a7a020u);
  EXPECT_EQ(rng(), 0x523e0d85adca1466u);
  EXPECT_EQ(rng(), 0xb299da3f65401425u);
  EXPECT_EQ(CounterRng(kKey, (std::uint64_t{1} << 63) + 5)(), 0x1585c6718af8a17au);
}

TEST(CounterRng, ContinuesExactlyFromAnyPosition) {
  CounterRng rng(kKey);
  std::vector<std::uint64_t> numbers;
  for (int i = 0; i < 20; ++i) numbers.push_back(rng());
  for (std::size_t start = 0; start < numbers.size(); ++start) {
    CounterRng resumed(kKey, start);
    rng.set_position(start);
    for (std::size_t i = start; i < numbers.size(); ++i) {
      EXPECT_EQ(resumed(), numbers[i]);
      EXPECT_EQ(rng(), numbers[i]);
    }
    EXPECT_EQ(resumed.position(), numbers.size());
  }
}

TEST(CounterRng, JumpingMidBlockDoesNotReuseTheOldBlock) {
  CounterRng rng(kKey);
  rng();  // the second half of block 0 is ready
  rng.set_position(7);
  EXPECT_EQ(rng(), CounterRng(kKey, 7)());
}

TEST(CounterRng, WrapsAroundAtTheEnd) {
  CounterRng rng(kKey, ~std::uint64_t{0});
  rng();
  EXPECT_EQ(rng.position(), 0u);
  EXPECT_EQ(rng(), CounterRng(kKey)());
}

TEST(UniformBelow, RefusesZero) {
  EXPECT_THROW(CounterRng(1).uniform_below(0), Error);
}

TEST(UniformBelow, StaysBelowAndReachesAll) {
  CounterRng rng(kKey);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(rng.uniform_below(1), 0u);
  std::array<int, 6> seen{};
  for (int i = 0; i < 6000; ++i) ++seen.at(rng.uniform_below(6));
  for (const int count : seen) EXPECT_NEAR(count, 1000, 150);
}

TEST(UniformBelow, IsUnbiasedWhereModuloWouldNotBe) {
  // With n = 3 * 2^62, modulo gives the first third of the range half of all draws.
  constexpr std::uint64_t kThird = std::uint64_t{1} << 62;
  CounterRng rng(kKey);
  int first_third = 0;
  for (int i = 0; i < 3000; ++i) first_third += rng.uniform_below(3 * kThird) < kThird ? 1 : 0;
  EXPECT_NEAR(first_third, 1000, 150);
  EXPECT_GT(rng.position(), 3500u);  // a quarter of the draws is rejected
}

TEST(Uniform, IsInTheUnitIntervalWithTheRightMoments) {
  CounterRng rng(kKey);
  constexpr int kDraws = 20000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = rng.uniform();
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.01);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.01);
  EXPECT_EQ(rng.position(), static_cast<std::uint64_t>(kDraws));
}

TEST(Normal, HasTheRightMomentsAndDrawsTwice) {
  CounterRng rng(kKey);
  constexpr int kDraws = 20000;
  double sum = 0;
  double squares = 0;
  int beyond_two = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = rng.normal();
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += value * value;
    beyond_two += std::abs(value) > 2 ? 1 : 0;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.03);
  EXPECT_NEAR(squares / kDraws, 1, 0.04);
  EXPECT_NEAR(static_cast<double>(beyond_two) / kDraws, 0.0455, 0.006);
  EXPECT_EQ(rng.position(), 2u * kDraws);
}

}  // namespace
}  // namespace brigade::base
