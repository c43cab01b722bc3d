#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "brigade/data/core/error_context.h"
#include "brigade/data/core/inputs.h"
#include "brigade/data/core/replayable_input.h"
#include "brigade/data/core/transform.h"
#include "brigade/data/transforms/grouping.h"
#include "brigade/data/transforms/window.h"

namespace brigade::data {

template <class T>
class Dataset;

namespace internal {

template <class Reduce, class T>
struct ReductionTraits {
  static_assert(std::invocable<const Reduce&, std::int64_t, Dataset<T>>,
                "The reduction of group_by_window must be callable as fn(std::int64_t key, "
                "Dataset<T> window) and return a dataset");
  using Result = typename std::invoke_result_t<const Reduce&, std::int64_t, Dataset<T>>::Element;
};

template <class T, class U>
struct WindowReduction {
  GroupingRule<T> rule;
  std::function<NodePtr<U>(std::int64_t key, NodePtr<T> window)> reduce;
};

template <class T, class U>
class GroupByWindowIterator final : public IteratorBase<U> {
 public:
  GroupByWindowIterator(ReplayableInput<T> input, WindowReduction<T, U> reduction,
                        const IteratorOptions& options)
      : where_(reduction.rule.where),
        options_(options_in_order(options)),
        reduce_(std::move(reduction.reduce)),
        groups_(std::move(input), std::move(reduction.rule)) {}
  std::optional<U> next() override {
    while (true) {
      if (open_) {
        auto element = next_of_open();
        if (element) return element;
        close();
      }
      auto group = groups_.next();
      if (!group) return std::nullopt;
      ++windows_;
      open(std::move(*group));
    }
  }
  io::StateTree save() const override {
    io::StateTree state = make_position("group_by_window", {{"windows", windows_}},
                                        groups_.save(open_ ? &*open_ : nullptr));
    if (open_) state["window"] = window_iterator_->save();
    return state;
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "group_by_window");
    const std::uint64_t windows = position_number(state, "windows");
    close();
    auto group = groups_.restore(position_input(state));
    windows_ = windows;
    if (!group) return;
    open(std::move(*group));
    window_iterator_->restore(state.at("window"));
  }

 private:
  std::optional<U> next_of_open() {
    try {
      return window_iterator_->next();
    } catch (...) {
      rethrow_with_context(window_context(where_, windows_ - 1, open_->key));
    }
  }
  /// A window whose dataset cannot be created fails as one element.
  void open(Group<T> group) {
    try {
      SharedResults<T> contents;
      for (T& element : group.elements) {
        contents.push_back(std::make_shared<const ElementResult<T>>(
            ElementResult<T>{std::move(element), nullptr}));
      }
      group.elements.clear();
      node_ = reduce_(group.key, make_window_contents(std::move(contents)));
      window_iterator_ = node_->iterator(options_of_inner(options_, windows_ - 1));
      open_ = std::move(group);
    } catch (...) {
      close();
      rethrow_with_context(window_context(where_, windows_ - 1, group.key));
    }
  }
  void close() {
    open_ = std::nullopt;
    window_iterator_ = nullptr;
    node_ = nullptr;
  }

  std::string where_;
  IteratorOptions options_;
  std::function<NodePtr<U>(std::int64_t, NodePtr<T>)> reduce_;
  Grouping<T> groups_;
  std::uint64_t windows_ = 0;  // number of windows opened
  std::optional<Group<T>> open_;
  NodePtr<U> node_;  // declared before its iterator, so that it outlives it
  std::unique_ptr<IteratorBase<U>> window_iterator_;
};

}  // namespace internal

/// See `Dataset::group_by_window`.
template <class T, class Key, class Reduce, class Size>
auto make_group_by_window(NodePtr<T> input, Key key, Reduce reduce, Size size) {
  static_assert(
      std::is_invocable_r_v<std::int64_t, const Key&, const T&>,
      "The key of group_by_window must be callable as fn(const element&) and return a number");
  static_assert(std::is_copy_constructible_v<T>,
                "group_by_window needs elements that can be copied: the dataset of a window may be "
                "iterated more than once");
  using U = typename internal::ReductionTraits<Reduce, T>::Result;
  internal::WindowReduction<T, U> reduction{
      .rule = {.key = std::move(key),
               .size = internal::window_size_function(std::move(size)),
               .where = {}},
      .reduce = [reduce = std::move(reduce)](std::int64_t of, NodePtr<T> window) {
        return reduce(of, Dataset<T>(std::move(window))).node();
      }};
  return internal::make_transform<U>(
      std::move(input),
      {.name = "group_by_window",
       .cardinality = internal::unknown_cardinality,
       .counts_elements = true,  // each shard has separate windows
       .rereads_input = true},
      [reduction = std::move(reduction)](const Node<T>& from, const IteratorOptions& job,
                                         const Node<U>& self) {
        internal::WindowReduction<T, U> of_pass = reduction;
        of_pass.rule.where = self.describe();
        of_pass.rule.epoch = job.epoch;
        return std::make_unique<internal::GroupByWindowIterator<T, U>>(
            internal::ReplayableInput<T>(from.iterator(job), job.cancel), std::move(of_pass), job);
      });
}

}  // namespace brigade::data
