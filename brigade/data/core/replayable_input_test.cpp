#include "brigade/data/core/noted_input.h"

#include <gtest/gtest.h>

#include <vector>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data::internal {
namespace {

using namespace testing;  // NOLINT: the battery

TEST(NotedInput, GoesBackToAnyElement) {
  const auto dataset = range(50);
  NotedInput<std::int64_t> input(dataset.node()->iterator({}), std::nullopt);
  std::vector<InputPlace> places;
  for (int i = 0; i < 50; ++i) places.push_back(input.next().at);
  EXPECT_TRUE(input.next().outcome.is_end());
  EXPECT_EQ(input.here().place, 50U);
  for (const std::size_t place : {49, 0, 17, 16, 15, 31, 32, 33, 2}) {
    input.go_to(places[place]);
    auto element = input.next();
    EXPECT_EQ(element.at.place, place);
    EXPECT_EQ(element.outcome.element, static_cast<std::int64_t>(place));
    input.go_to(places[place].after());
    EXPECT_EQ(input.here().place, place + 1);
  }
}

TEST(NotedInput, PlacesShareTheirNotes) {
  const auto dataset = range(40);
  NotedInput<std::int64_t> input(dataset.node()->iterator({}), std::nullopt);
  std::vector<std::shared_ptr<const InputNote>> notes;
  for (int i = 0; i < 40; ++i) {
    const auto note = input.next().at.note;
    if (notes.empty() || notes.back() != note) notes.push_back(note);
  }
  EXPECT_EQ(notes.size(), 3U);  // at 0, 16 and 32
}

TEST(NotedInput, RefusesAPlaceBehindTheEnd) {
  const auto longer = range(9);
  NotedInput<std::int64_t> of_longer(longer.node()->iterator({}), std::nullopt);
  for (int i = 0; i < 9; ++i) of_longer.next();
  const auto shorter = range(5);
  NotedInput<std::int64_t> input(shorter.node()->iterator({}), std::nullopt);
  expect_invalid_argument([&] { input.go_to(of_longer.here()); }, "behind element 9");
}

TEST(NotedInput, AWaitThatWasGivenUpLosesNoElement) {
  const concurrency::CancelToken cancel;
  const auto dataset = range(3).map([cancel](std::int64_t x) {
    cancel.throw_if_cancelled("waiting");
    return x;
  });
  NotedInput<std::int64_t> input(dataset.node()->iterator({}), cancel);
  input.next();
  cancel.cancel();
  EXPECT_EQ(error_of([&] { input.next(); }).code(), ErrorCode::kCancelled);
  EXPECT_EQ(input.here().place, 1U);
}

}  // namespace
}  // namespace brigade::data::internal
