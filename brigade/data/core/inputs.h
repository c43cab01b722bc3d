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

/// What transforms with several inputs have in common.
namespace brigade::data::internal {

/// Of a transform that gives the elements of its inputs as they are: what all inputs can be shared
/// out by, each for itself.
ShardingInfo sharding_of_joined(const std::vector<ShardingInfo>& inputs);

/// Of a transform that puts elements of all inputs together: by hint only, because files need not
/// have equally many elements.
ShardingInfo sharding_of_aligned(const std::vector<ShardingInfo>& inputs);

/// The iterator options of input `input`. A walk over one shard of several has to find it in all
/// inputs; where `sharding` says that one of them has none, all are walked over as a whole.
IteratorOptions options_of_joined(IteratorOptions options, const ShardingInfo& sharding,
                                  std::uint64_t input);

/// What stands before each input, if anything: "0.3 of ".
using InputLabels = std::vector<std::string>;

/// "zip(range(3), range(4) | take(2))".
std::string describe_inputs(const std::string& name, const std::vector<std::string>& inputs,
                            const InputLabels& labels = {});
/// The same as a step, out of the recipes of the inputs.
PipelineStep step_of_inputs(const std::string& name, const std::vector<PipelineDescription>& inputs,
                          const InputLabels& labels = {});

/// An input as the transform sees it: its iterators are counted where every step is. Those of a
/// transform whose saved position holds nothing read from it may relax the order.
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

/// One more than the deepest input's.
std::uint64_t depth_above(const std::vector<std::uint64_t>& inputs);

/// Of a zip: the shortest.
std::int64_t cardinality_of_zip(const std::vector<std::int64_t>& inputs);
std::int64_t cardinality_of_concatenate(std::int64_t first, std::int64_t second);

/// The position of input `input` in a state that has the list "inputs". Throws kInvalidArgument if
/// there are not `count` of them.
const io::StateTree& position_of_input(const io::StateTree& state, std::uint64_t input,
                                       std::uint64_t count);

}  // namespace brigade::data::internal
