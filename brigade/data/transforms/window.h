#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/data/core/element_result.h"
#include "brigade/data/core/indexed_source.h"
#include "brigade/data/core/replayable_input.h"
#include "brigade/data/core/transform.h"
#include "brigade/data/transforms/batch.h"

namespace brigade::data {

template <class T>
class Dataset;

/// Options of `Dataset::window`.
struct WindowOptions {
  /// Number of input elements from the start of one window to the start of the next. Unset: the
  /// size, so that windows neither overlap nor have gaps.
  std::optional<std::int64_t> shift{};
  /// Number of input elements from one element of a window to the next.
  std::int64_t stride = 1;
  /// What happens to windows that extend past the end of the input.
  Remainder remainder = Remainder::kKeep;
};

namespace internal {

/// The layout of windows in the input, in input elements.
struct WindowShape {
  std::uint64_t shift = 1;
  std::uint64_t stride = 1;
  std::uint64_t span = 1;  ///< from a window's first element to one past its last
  Remainder remainder = Remainder::kKeep;
};

/// Throws kInvalidArgument unless size, shift and stride are at least 1.
WindowShape shape_of_window(std::int64_t size, const WindowOptions& options);
std::string name_of_window(std::int64_t size, const WindowOptions& options);
/// The number of windows in `elements` elements.
std::uint64_t count_windows(std::uint64_t elements, const WindowShape& shape);
std::int64_t cardinality_of_window(std::int64_t input, const WindowShape& shape);

/// Elements, or their errors, shared by several windows.
template <class T>
using SharedResults = std::vector<std::shared_ptr<const ElementResult<T>>>;

/// The source of a window's dataset: returns copies of the elements and throws the errors.
template <class T>
NodePtr<T> make_window_contents(SharedResults<T> window) {
  const auto size = static_cast<std::int64_t>(window.size());
  auto shared = std::make_shared<const SharedResults<T>>(std::move(window));
  return std::make_shared<const IndexedNode<T>>(
      size,
      [shared](std::int64_t index) -> T {
        const ElementResult<T>& result = *(*shared)[static_cast<std::size_t>(index)];
        if (result.error) std::rethrow_exception(result.error);
        return *result.element;
      },
      base::str_cat("a window of ", size));
}

template <class T>
class WindowIterator final : public IteratorBase<Dataset<T>> {
 public:
  WindowIterator(ReplayableInput<T> input, WindowShape shape)
      : input_(std::move(input)), shape_(shape) {}
  std::optional<Dataset<T>> next() override {
    if (!fill()) return std::nullopt;
    SharedResults<T> window;
    for (std::uint64_t i = 0; i < buffer_.size(); i += shape_.stride) {
      window.push_back(buffer_[static_cast<std::size_t>(i)].result);
    }
    advance(shape_.shift);
    return Dataset<T>(make_window_contents(std::move(window)));
  }
  std::uint64_t skip(std::uint64_t count) override {
    if (count == 0) return 0;
    const std::uint64_t first = start_;
    // The last of them exists if and only if all do.
    advance(saturating_multiply(count - 1, shape_.shift));
    if (fill()) {
      advance(shape_.shift);
      return count;
    }
    const std::uint64_t elements = input_.position().index;
    return elements > first ? count_windows(elements - first, shape_) : 0;
  }
  io::StateTree save() const override {
    return make_position(
        "window", {{"start", start_}},
        save_replay_point(buffer_.empty() ? input_.position() : buffer_.front().at));
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "window");
    const ReplayPoint point = load_replay_point(position_input(state));
    const std::uint64_t start = position_number(state, "start");
    buffer_.clear();
    input_.seek(point);
    start_ = start;
  }

 private:
  struct Held {
    ReplayPoint at;
    std::shared_ptr<const ElementResult<T>> result;
  };

  /// Reads the elements of the window at `start_`; returns whether there is one.
  bool fill() {
    const std::uint64_t index = input_.position().index;
    if (buffer_.empty() && index < start_) input_.skip(start_ - index);
    while (buffer_.size() < shape_.span) {
      auto element = input_.next();
      if (element.result.is_end()) break;
      buffer_.push_back({std::move(element.at),
                         std::make_shared<const ElementResult<T>>(std::move(element.result))});
    }
    if (shape_.remainder == Remainder::kDrop) return buffer_.size() == shape_.span;
    return !buffer_.empty();
  }
  void advance(std::uint64_t distance) {
    start_ = saturating_add(start_, distance);
    for (; distance > 0 && !buffer_.empty(); --distance) buffer_.pop_front();
  }

  ReplayableInput<T> input_;
  WindowShape shape_;
  std::uint64_t start_ = 0;  // the index of the next window's first element
  std::deque<Held> buffer_;  // from start_ on
};

}  // namespace internal

/// See `Dataset::window`.
template <class T>
NodePtr<Dataset<T>> make_window(NodePtr<T> input, std::int64_t size, const WindowOptions& options) {
  static_assert(
      std::is_copy_constructible_v<T>,
      "window needs elements that can be copied: windows overlap, and each may be iterated "
      "over more than once");
  const internal::WindowShape shape = internal::shape_of_window(size, options);
  const bool is_partition = shape.stride == 1 && shape.shift == shape.span &&
                            shape.remainder == Remainder::kKeep;  // each element is in one window
  return internal::make_transform<Dataset<T>>(
      std::move(input),
      {.name = internal::name_of_window(size, options),
       .cardinality =
           [shape](std::int64_t all) { return internal::cardinality_of_window(all, shape); },
       .counts_elements = !is_partition,  // windows do not span several shards
       .rereads_input = true},
      [shape](const Node<T>& from, const IteratorOptions& job, const Node<Dataset<T>>&) {
        return std::make_unique<internal::WindowIterator<T>>(
            internal::ReplayableInput<T>(from.iterator(job), job.cancel), shape);
      });
}

}  // namespace brigade::data
