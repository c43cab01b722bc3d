#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "brigade/data/core/node.h"
#include "brigade/data/core/order.h"
#include "brigade/data/core/pipeline_description.h"
#include "brigade/data/core/sharding.h"

/// Helpers of transforms with several inputs, and with a dataset made from each element.
namespace brigade::data::internal {

/// The sharding of a transform that returns the elements of its inputs unchanged: what all inputs
/// support, each sharded separately.
ShardingInfo sharding_of_joined(const std::vector<ShardingInfo>& inputs);

/// The sharding of a transform that combines elements of all inputs: by hint only, because files
/// need not have the same number of elements.
ShardingInfo sharding_of_aligned(const std::vector<ShardingInfo>& inputs);

/// The options that a transform with several inputs (zip, concatenate, ...) passes to the iterator
/// of input `input`, counted from 0: the job's options, with a different seed for each input after
/// the first, so that equal inputs are not shuffled in the same order.
IteratorOptions options_of_input(IteratorOptions options, std::uint64_t input);

/// The options that a transform that makes a dataset from each element (flat_map, interleave)
/// passes to the iterator of the dataset made from element `index` of the pass: a seed that no
/// other element and no other shard has, and no sharding.
IteratorOptions options_of_inner(IteratorOptions options, std::uint64_t index);

/// The options for an input that is restored by reading it again: all its steps keep their order.
IteratorOptions options_in_order(IteratorOptions options);

/// The iterator options of input `input`. All inputs must support the shard; if `sharding` says
/// that one does not, all are iterated over as a whole.
IteratorOptions options_of_joined(IteratorOptions options, const ShardingInfo& sharding,
                                  std::uint64_t input);

/// A prefix of each input in the description, or none: "0.3 of ".
using InputLabels = std::vector<std::string>;

/// "zip(range(3), range(4) | take(2))".
std::string describe_inputs(const std::string& name, const std::vector<std::string>& inputs,
                            const InputLabels& labels = {});
/// The same as a step, from the pipeline descriptions of the inputs.
PipelineStep step_of_inputs(const std::string& name, const std::vector<PipelineDescription>& inputs,
                            const InputLabels& labels = {});

/// An input as the transform uses it: its iterators record statistics if all steps do. A transform
/// whose saved position holds nothing read from the input may use it in any order.
template <class T>
NodePtr<T> input_in_any_order(NodePtr<T> node) {
  using Input = InputNode<T>;
  return std::make_shared<const Input>(std::move(node), Input::Need::kAnyOrder);
}
template <class T>
NodePtr<T> input_in_order(NodePtr<T> node) {
  using Input = InputNode<T>;
  return std::make_shared<const Input>(std::move(node), Input::Need::kSameOrder);
}

/// kRelaxed if one input is.
Order order_of_inputs(const std::vector<Order>& inputs);

/// The depth of a transform: one more than that of the deepest input.
std::uint64_t depth_above(const std::vector<std::uint64_t>& inputs);

/// The cardinality of a zip: that of the shortest input.
std::int64_t cardinality_of_zip(const std::vector<std::int64_t>& inputs);
std::int64_t cardinality_of_concatenate(std::int64_t first, std::int64_t second);
/// Throws kInvalidArgument if a saved position is in an input of concatenate that does not exist.
void check_concatenated_part(std::uint64_t part);

/// The position of input `input` in a state that has the list "inputs". Throws kInvalidArgument if
/// there are not `count` of them.
const io::StateTree& position_of_input(const io::StateTree& state, std::uint64_t input,
                                       std::uint64_t count);

}  // namespace brigade::data::internal
