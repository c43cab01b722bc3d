#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/position.h"

/// What the transforms with one input have in common.
namespace brigade::data::internal {

/// A number or flag of an iterator that is a part of its saved position.
///
/// Thread-safety: as the iterator.
class PositionField {
 public:
  PositionField(std::string_view name, std::uint64_t& number) : name_(name), number_(&number) {}
  PositionField(std::string_view name, bool& flag) : name_(name), flag_(&flag) {}
  std::string_view name() const { return name_; }
  std::uint64_t value() const { return number_ != nullptr ? *number_ : std::uint64_t{*flag_}; }
  void set(std::uint64_t value) const;

 private:
  std::string_view name_;
  std::uint64_t* number_ = nullptr;
  bool* flag_ = nullptr;
};

/// The fields of an iterator, saved together with the position of its input.
///
/// Thread-safety: as the iterator.
class PositionFields {
 public:
  PositionFields(std::string_view transform, std::initializer_list<PositionField> fields)
      : transform_(transform), fields_(fields) {}
  io::StateTree save(io::StateTree input) const;
  /// Restores the input, and then the fields. Throws kInvalidArgument, before anything changes, if
  /// `state` was saved by another transform.
  void restore(const io::StateTree& state,
               const std::function<void(const io::StateTree&)>& restore_input) const;

 private:
  std::string_view transform_;
  std::vector<PositionField> fields_;
};

/// The base class of iterators whose position is that of their input and a few fields.
template <class Out, class In = Out>
class TransformIterator : public IteratorBase<Out> {
 public:
  TransformIterator(const TransformIterator&) = delete;
  TransformIterator& operator=(const TransformIterator&) = delete;
  io::StateTree save() const override { return fields_.save(input_->save()); }
  void restore(const io::StateTree& state) override {
    fields_.restore(state, [this](const io::StateTree& input) { input_->restore(input); });
  }

 protected:
  /// `transform` must outlive the iterator.
  TransformIterator(std::unique_ptr<IteratorBase<In>> input, std::string_view transform,
                    std::initializer_list<PositionField> fields = {})
      : input_(std::move(input)), fields_(transform, fields) {}

  const std::unique_ptr<IteratorBase<In>> input_;

 private:
  PositionFields fields_;
};

/// Skips up to `count` elements by calling `produce` for each, until it returns false: for
/// transforms that need not make the elements. A call that throws counts as an element.
template <class F>
std::uint64_t skip_by(std::uint64_t count, F produce) {
  for (std::uint64_t passed = 0; passed < count; ++passed) {
    try {
      if (!produce()) return passed;
    } catch (...) {
      rethrow_if_cancelled();
    }
  }
  return count;
}

/// Describes a transform with one input.
struct TransformSpec {
  std::string name;
  /// `PipelineStep::fixed`. Unset: `name`.
  std::optional<std::string> fixed{};
  /// The cardinality, from that of the input. Unset: the same.
  std::function<std::int64_t(std::int64_t input)> cardinality{};
  /// Whether it counts elements, and so gives other elements for the shards together than for the
  /// whole dataset.
  bool counts_elements = false;
  /// Whether restoring a position reads elements of the input again, which then must keep its
  /// order.
  bool rereads_input = false;
  /// Whether it returns its elements in the same order each time, whatever the input does.
  bool has_fixed_order = false;
};

/// Cardinalities for `TransformSpec`: always `kUnknown`; `kUnknown` unless the input is infinite.
inline std::int64_t unknown_cardinality(std::int64_t /*input*/) {
  return kUnknown;
}
inline std::int64_t unknown_unless_infinite(std::int64_t input) {
  return input == kInfinite ? kInfinite : kUnknown;
}

/// A transform that is described by a `TransformSpec` and a function that makes its iterators. The
/// iterators must not outlive the node.
template <class Out, class In>
class SpecifiedNode final : public TransformNode<Out, In> {
 public:
  using Make = std::function<std::unique_ptr<IteratorBase<Out>>(
      const Node<In>& input, const IteratorOptions& job, const Node<Out>& self)>;

  SpecifiedNode(NodePtr<In> input, TransformSpec spec, Make make)
      : TransformNode<Out, In>(std::move(input), spec.name, spec.fixed.value_or(spec.name)),
        spec_(std::move(spec)),
        make_(std::move(make)) {}
  std::unique_ptr<IteratorBase<Out>> iterator(const IteratorOptions& job) const override {
    return make_(spec_.rereads_input ? this->input() : this->input_in_any_order(), job, *this);
  }
  std::int64_t cardinality() const override {
    const std::int64_t input = this->input().cardinality();
    return spec_.cardinality ? spec_.cardinality(input) : input;
  }
  ShardingInfo sharding() const override {
    return spec_.counts_elements ? this->sharding_of_counter() : this->input().sharding();
  }
  Order order(const IteratorOptions& job) const override {
    return spec_.has_fixed_order ? Order::kInOrder : TransformNode<Out, In>::order(job);
  }

 private:
  TransformSpec spec_;
  Make make_;
};

template <class Out, class In>
NodePtr<Out> make_transform(NodePtr<In> input, TransformSpec spec,
                            typename SpecifiedNode<Out, In>::Make make) {
  return std::make_shared<const SpecifiedNode<Out, In>>(std::move(input), std::move(spec),
                                                        std::move(make));
}

/// The key of a transform's random stream in an epoch: from its own seed if there is one, otherwise
/// from the job's seed and the transform's depth. `stream` names the kind of transform.
std::uint64_t key_of_stream(std::string_view stream, std::optional<std::uint64_t> seed,
                            const IteratorOptions& job, std::uint64_t depth, std::uint64_t epoch);

}  // namespace brigade::data::internal
