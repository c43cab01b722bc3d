// Saved positions that are out of reach: restoring a damaged or forged checkpoint must not hang.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/source.h"
#include "brigade/data/dataset.h"
#include "brigade/data/sources/from_generator.h"

namespace brigade::data {
namespace {

constexpr std::uint64_t kFar = std::uint64_t{1} << 60;

/// The state of a new iterator, with these numbers of its last step changed.
template <class T>
io::StateTree far_state(const Dataset<T>& dataset, std::initializer_list<const char*> numbers) {
  auto iterator = dataset.iterator();
  iterator.next();
  io::StateTree state = iterator.save();
  for (const char* name : numbers) state["position"][name] = kFar;
  return state;
}

template <class T>
ErrorCode code_of_restore(const Dataset<T>& dataset, const io::StateTree& state,
                          std::optional<concurrency::CancelToken> cancel = {}) {
  auto iterator = dataset.iterator({.cancel = std::move(cancel)});
  try {
    iterator.restore(state);
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

TEST(FarPositions, AreRefusedIfTheLengthIsKnown) {
  const auto refused = [](const auto& dataset, std::initializer_list<const char*> numbers) {
    EXPECT_EQ(code_of_restore(dataset, far_state(dataset, numbers)), ErrorCode::kInvalidArgument)
        << dataset.describe();
  };
  const Dataset<std::int64_t> numbers = range(100);
  refused(numbers, {"index"});
  refused(numbers.shuffle(10), {"filled", "drawn"});
  refused(numbers.cache(), {"place"});
  refused(numbers.unique(), {"read"});
  refused(numbers.assert_cardinality(100), {"place"});
  refused(numbers.prefetch(2), {"ahead"});
  const auto same = [](std::int64_t number) { return number; };
  refused(numbers.map(same), {"ahead"});
  refused(numbers.map(same, {.parallelism = 2}), {"ahead"});
}

// No length shows that these are too far.
TEST(FarPositions, InInfiniteDataAreRefusedIfNoStepCanBeSoFarAhead) {
  const Dataset<std::int64_t> endless = range(100).repeat();
  const auto same = [](std::int64_t number) { return number; };
  EXPECT_EQ(code_of_restore(endless.prefetch(2), far_state(endless.prefetch(2), {"ahead"})),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of_restore(endless.map(same), far_state(endless.map(same), {"ahead"})),
            ErrorCode::kInvalidArgument);
  io::StateTree early = far_state(endless.prefetch(2), {});
  early["position"]["early"] = io::StateTree::list();
  early["position"]["early"].push_back(std::uint64_t{5});
  early["position"]["early"].push_back(kFar);
  EXPECT_EQ(code_of_restore(endless.prefetch(2), early), ErrorCode::kInvalidArgument);
}

TEST(FarPositions, InInfiniteDataCanBeCancelled) {
  concurrency::CancelToken cancel;
  cancel.cancel();
  const Dataset<std::int64_t> endless = range(100).repeat();
  const auto shuffled = endless.shuffle(10);
  EXPECT_EQ(code_of_restore(shuffled, far_state(shuffled, {"filled", "drawn"}), cancel),
            ErrorCode::kCancelled);
  const auto unique = endless.unique();
  EXPECT_EQ(code_of_restore(unique, far_state(unique, {"read"}), cancel), ErrorCode::kCancelled);
}

TEST(FarPositions, AreCancelledWhileSkipping) {
  concurrency::CancelToken cancel;
  const auto counting = from_generator<std::int64_t>(
      [cancel] {
        return [cancel, number = std::int64_t{0}]() mutable -> std::optional<std::int64_t> {
          if (number == 100'000) cancel.cancel();
          return number++;
        };
      },
      "counting");
  EXPECT_EQ(code_of_restore(counting, far_state(counting, {"place"}), cancel),
            ErrorCode::kCancelled);
}

}  // namespace
}  // namespace brigade::data
