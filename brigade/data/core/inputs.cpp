#include "brigade/data/core/inputs.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/random.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/input_selector.h"

namespace brigade::data::internal {
namespace {

bool has(const std::vector<std::int64_t>& inputs, std::int64_t cardinality) {
  return std::find(inputs.begin(), inputs.end(), cardinality) != inputs.end();
}

}  // namespace

ShardingInfo sharding_of_joined(const std::vector<ShardingInfo>& inputs) {
  ShardingInfo joined{.files = inputs.front().files,
                      .file_list_hash = inputs.front().file_list_hash,
                      .has_hint = true};
  for (const ShardingInfo& input : inputs) {
    // The fewest, because each input must have enough files for all shards.
    joined.files = std::min(joined.files, input.files);
    if (&input != &inputs.front())
      joined.file_list_hash = base::mix_seed(joined.file_list_hash, input.file_list_hash);
    joined.has_hint = joined.has_hint && input.has_hint;
    if (joined.counting_step.empty()) joined.counting_step = input.counting_step;
  }
  if (joined.files == 0) joined.file_list_hash = 0;
  return joined;
}

ShardingInfo sharding_of_aligned(const std::vector<ShardingInfo>& inputs) {
  ShardingInfo aligned = sharding_of_joined(inputs);
  aligned.files = 0;
  aligned.file_list_hash = 0;
  return aligned;
}

IteratorOptions options_of_input(IteratorOptions options, std::uint64_t input) {
  if (input > 0) options.seed = base::derive_seed(options.seed, "input", input, 0);
  return options;
}

IteratorOptions options_of_inner(IteratorOptions options, std::uint64_t index) {
  const std::uint64_t seed = base::derive_seed(options.seed, "inner", index, 0);
  options.seed = key_in_shard(seed, options.shard);
  options.shard = Shard();
  options.stages = nullptr;  // there may be thousands: their work counts as that of the step
  return options;
}

IteratorOptions options_in_order(IteratorOptions options) {
  options.order = Order::kInOrder;
  return options;
}

IteratorOptions options_of_joined(IteratorOptions options, const ShardingInfo& sharding,
                                  std::uint64_t input) {
  const bool is_shared =
      options.shard.by == ShardBy::kFiles ? sharding.files > 0 : sharding.has_hint;
  if (!is_shared) options.shard = Shard();
  return options_of_input(std::move(options), input);
}

std::string describe_inputs(const std::string& name, const std::vector<std::string>& inputs,
                            const InputLabels& labels) {
  std::vector<std::string> labeled = inputs;
  for (std::size_t i = 0; i < labels.size(); ++i) labeled[i].insert(0, labels[i]);
  return base::str_cat(name, "(", base::join(labeled, ", "), ")");
}

PipelineStep step_of_inputs(const std::string& name, const std::vector<PipelineDescription>& inputs,
                            const InputLabels& labels) {
  std::vector<std::string> texts;
  std::vector<std::string> fixed;
  for (PipelineDescription pipeline : inputs) {
    texts.push_back(data::describe(pipeline));
    for (PipelineStep& step : pipeline) step.text = step.fixed;
    fixed.push_back(data::describe(pipeline));
  }
  return {describe_inputs(name, texts, labels), describe_inputs(name, fixed, labels)};
}

Order order_of_inputs(const std::vector<Order>& inputs) {
  const bool is_relaxed = std::find(inputs.begin(), inputs.end(), Order::kRelaxed) != inputs.end();
  return is_relaxed ? Order::kRelaxed : Order::kInOrder;
}

std::uint64_t depth_above(const std::vector<std::uint64_t>& inputs) {
  return *std::max_element(inputs.begin(), inputs.end()) + 1;
}

std::int64_t cardinality_of_zip(const std::vector<std::int64_t>& inputs) {
  if (has(inputs, kUnknown)) return kUnknown;
  std::int64_t shortest = kInfinite;
  for (const std::int64_t input : inputs) {
    if (shortest == kInfinite || (input != kInfinite && input < shortest)) shortest = input;
  }
  return shortest;
}

std::int64_t cardinality_of_concatenate(std::int64_t first, std::int64_t second) {
  if (first == kInfinite || second == kInfinite) return kInfinite;
  if (first == kUnknown || second == kUnknown) return kUnknown;
  std::int64_t sum = 0;
  check_argument(!__builtin_add_overflow(first, second, &sum), "concatenate: ", first, " and ",
                 second, " elements are more than can be counted");
  return sum;
}

void check_concatenated_part(std::uint64_t part) {
  check_argument(part <= 1, "A saved position of concatenate is broken: it is in input ", part,
                 ", counted from 0, of two");
}

const io::StateTree& position_of_input(const io::StateTree& state, std::uint64_t input,
                                       std::uint64_t count) {
  const std::size_t saved = state.as_list("inputs").size();
  check_argument(saved == count, "A position saved of ", saved, " inputs cannot be restored into ",
                 count, ": restore it into the dataset that it was saved from");
  return state.at("inputs", input);
}

void check_has_datasets(std::size_t count, const std::string& name) {
  check_argument(count > 0, name, ": no datasets to choose from; pass 1 or more");
}

std::string selection_name(const std::string& name, WhenEmpty when_empty) {
  return base::str_cat(name, when_empty == WhenEmpty::kStop ? "[stop when empty]" : "[continue]");
}

void check_not_cancelled(const IteratorOptions& options, const std::string& name) {
  if (options.cancel) options.cancel->throw_if_cancelled(name);
}

bool all_endless(const std::vector<std::int64_t>& cardinalities) {
  return std::ranges::all_of(cardinalities, [](auto each) { return each == kInfinite; });
}

bool has_endless(const std::vector<std::int64_t>& cardinalities) {
  return has(cardinalities, kInfinite);
}

}  // namespace brigade::data::internal
