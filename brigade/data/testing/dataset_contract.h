#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/source.h"
#include "brigade/data/dataset.h"
#include "brigade/io/state_json.h"

/// The test suite that every dataset must pass, whatever transforms it has. For tests only.
namespace brigade::data::testing {

/// All elements from the iterator's position to the end of the epoch.
template <class T>
std::vector<T> rest_of(Iterator<T>& iterator) {
  std::vector<T> elements;
  while (auto element = iterator.next()) elements.push_back(std::move(*element));
  return elements;
}

/// All elements of one epoch.
template <class T>
std::vector<T> epoch_of(const Dataset<T>& dataset, IteratorOptions options = {}) {
  auto iterator = dataset.iterator(options);
  return rest_of(iterator);
}

/// The elements from `index` on.
template <class T>
std::vector<T> elements_from(const std::vector<T>& elements, std::size_t index) {
  const auto first = elements.begin() + static_cast<std::ptrdiff_t>(index);
  return std::vector<T>(first, elements.end());
}

/// The state after a round trip through JSON.
inline io::StateTree json_round_trip(const io::StateTree& state) {
  return io::from_json(io::to_json(state).json);
}

/// A state saved at any position, at the end, and after it, resumes exactly there: in a new
/// iterator, and in one at another position with its threads running. Saving changes nothing.
template <class T>
void expect_resumes_everywhere(const Dataset<T>& dataset, std::uint64_t epoch) {
  const std::vector<T> elements = epoch_of(dataset, {.seed = 3, .epoch = epoch});
  auto iterator = dataset.iterator({.seed = 3, .epoch = epoch});
  auto other = dataset.iterator({.seed = 99});
  for (std::size_t index = 0; index <= elements.size() + 1; ++index) {
    const std::size_t done = std::min(index, elements.size());
    SCOPED_TRACE(::testing::Message()
                 << "epoch " << epoch << ", saved after " << index << " calls");
    const io::StateTree state = json_round_trip(iterator.save());
    auto fresh = dataset.iterator();
    fresh.restore(state);
    ASSERT_EQ(fresh.epoch(), epoch);
    ASSERT_EQ(rest_of(fresh), elements_from(elements, done));
    other.restore(state);
    if (done < elements.size()) {
      ASSERT_EQ(other.next(), elements[done]);
      const io::StateTree later = other.save();  // of an iterator that was itself restored
      fresh.restore(later);
      ASSERT_EQ(rest_of(fresh), elements_from(elements, done + 1));
    }
    const auto next = iterator.next();
    ASSERT_EQ(next, done < elements.size() ? std::optional<T>(elements[done]) : std::nullopt);
  }
}

/// `skip` and `next` move through the same positions.
template <class T>
void expect_skips_exactly(const Dataset<T>& dataset) {
  const std::vector<T> elements = epoch_of(dataset);
  for (std::size_t before : {0, 1, 5}) {
    for (std::size_t count : {0, 1, 2, 7, 1'000'000}) {
      auto iterator = dataset.node()->iterator({});
      std::size_t index = 0;
      while (index < before && iterator->next()) ++index;
      SCOPED_TRACE(::testing::Message() << "skip " << count << " after " << index);
      const std::size_t left = elements.size() - index;
      ASSERT_EQ(iterator->skip(count), std::min(count, left));
      index += std::min(count, left);
      while (auto element = iterator->next()) ASSERT_EQ(*element, elements.at(index++));
      ASSERT_EQ(index, elements.size());
      ASSERT_EQ(iterator->skip(3), 0U);
    }
  }
}

/// Whether a dataset knows its number of elements.
enum class Length { kKnown, kUnknown };

/// The whole test suite, for a finite dataset. `expected` are the elements of epoch 0 at seed 0.
template <class T>
void expect_contract(const Dataset<T>& dataset, const std::vector<T>& expected,
                     Length length = Length::kKnown) {
  const auto size = static_cast<std::int64_t>(expected.size());
  EXPECT_EQ(dataset.cardinality(), length == Length::kKnown ? size : kUnknown);
  auto iterator = dataset.iterator();
  ASSERT_EQ(rest_of(iterator), expected);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(iterator.next().has_value()) << "the end must stay";
  iterator.start_next_epoch();
  EXPECT_EQ(iterator.epoch(), 1U);
  EXPECT_EQ(rest_of(iterator), epoch_of(dataset, {.epoch = 1}));
  EXPECT_EQ(epoch_of(dataset), expected) << "a dataset has no memory";
  std::vector<T> ranged;
  for (auto& element : dataset) ranged.push_back(element);
  EXPECT_EQ(ranged, expected);
  expect_resumes_everywhere(dataset, 0);
  expect_resumes_everywhere(dataset, 1);
  expect_skips_exactly(dataset);
  auto untouched = dataset.iterator();
  EXPECT_THROW(untouched.restore(io::StateTree::dict()), Error);
  EXPECT_EQ(rest_of(untouched), expected) << "a refused restore must change nothing";
}

/// Lets a test see that an element of `waiting_range` is waited for.
class WaitPoint {
 public:
  /// Waits until a thread is in `wait`; false after a long time.
  bool is_reached() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!is_waiting_ && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return is_waiting_;
  }
  void wait(const concurrency::CancelToken& cancel) {
    is_waiting_ = true;
    std::promise<void> cancelled;
    const auto wake = cancel.on_cancel([&] { cancelled.set_value(); });
    cancelled.get_future().wait();
    cancel.throw_if_cancelled("the wait for an element that never comes");
  }

 private:
  std::atomic<bool> is_waiting_{false};
};

/// The numbers 0, 1, ... size - 1. Reading number `at` waits until the iteration is cancelled.
inline Dataset<std::int64_t> waiting_range(std::int64_t size, std::int64_t at,
                                           std::shared_ptr<WaitPoint> wait_point) {
  return from_indexed<std::int64_t>(
             size, [](std::int64_t x) { return x; }, "waiting_range")
      .map([wait_point, at](std::int64_t x, ElementContext& context) {
        if (x == at) wait_point->wait(context.cancel);
        return x;
      });
}

/// Cancelling from another thread immediately ends an iteration whose consumer waits in `next()`,
/// and leaves no threads. `transform` makes the dataset under test from a source that waits.
template <class F>
void expect_cancels(F transform) {
  const concurrency::CancelToken token;
  const auto wait_point = std::make_shared<WaitPoint>();
  const auto dataset = transform(waiting_range(100, 10, wait_point));
  auto iterator = dataset.iterator({.cancel = token});
  std::promise<std::optional<ErrorCode>> ended;
  auto code = ended.get_future();
  std::thread consumer([&] {
    try {
      while (iterator.next()) {
      }
      ended.set_value(std::nullopt);
    } catch (const Error& error) {
      ended.set_value(error.code());
    }
  });
  EXPECT_TRUE(wait_point->is_reached());
  token.cancel();
  EXPECT_EQ(code.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  consumer.join();
  EXPECT_EQ(code.get(), ErrorCode::kCancelled);
  EXPECT_THROW(iterator.next(), Error) << "it stays cancelled";
  auto late = dataset.iterator({.cancel = token});
  EXPECT_THROW(late.next(), Error) << "one that is cancelled before it starts";
}

/// Runs `call` and returns the Error it must throw.
template <class F>
Error error_of(F call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no Error was thrown";
  return Error(ErrorCode::kInternal, "none");
}

template <class F>
void expect_invalid_argument(F call, const std::string& mentions) {
  const Error error = error_of(call);
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(std::string(error.what()).find(mentions), std::string::npos) << error.what();
}

}  // namespace brigade::data::testing
