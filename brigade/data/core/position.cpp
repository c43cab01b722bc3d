#include "brigade/data/core/position.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::data {
namespace {

constexpr std::string_view kTransform = "transform";
constexpr std::string_view kInput = "input";
constexpr std::string_view kPipeline = "recipe";
constexpr std::string_view kShard = "shard";

}  // namespace

io::StateTree make_position(std::string_view transform,
                            std::initializer_list<PositionNumber> numbers,
                            std::optional<io::StateTree> input) {
  io::StateTree state;
  state[kTransform] = transform;
  for (const PositionNumber& number : numbers) state[number.name] = number.value;
  if (input) state[kInput] = std::move(*input);
  return state;
}

void check_position(const io::StateTree& state, std::string_view transform) {
  const std::string& saved = state.as_string(kTransform);
  if (saved == transform) return;
  refuse("A position saved in the transform ", base::quoted(saved), " cannot be restored into ",
         base::quoted(transform), ": restore it into the dataset that it was saved from");
}

std::uint64_t position_number(const io::StateTree& state, std::string_view name) {
  return state.as_uint64(name);
}

const io::StateTree& position_input(const io::StateTree& state) {
  return state.at(kInput);
}

bool has_position_input(const io::StateTree& state) {
  return state.has(kInput);
}

io::StateTree iterator_state(const IteratorOptions& options, const PipelineDescription& pipeline,
                             io::StateTree position) {
  io::StateTree state;
  state["seed"] = options.seed;
  state["epoch"] = options.epoch;
  state[kPipeline] = save_pipeline_description(pipeline);
  state["position"] = std::move(position);
  if (options.shard.count == 1) return state;
  state[kShard]["by"] = options.shard.by == ShardBy::kFiles ? "files" : "hint";
  state[kShard]["count"] = options.shard.count;
  state[kShard]["index"] = options.shard.index;
  return state;
}

IteratorOptions options_of_state(const io::StateTree& state) {
  IteratorOptions options{.seed = state.as_uint64("seed"), .epoch = state.as_uint64("epoch")};
  if (!state.has(kShard)) return options;
  const bool is_by_files = state.as_string(kShard, "by") == "files";
  options.shard = {.by = is_by_files ? ShardBy::kFiles : ShardBy::kHint,
                   .count = state.as_int64(kShard, "count"),
                   .index = state.as_int64(kShard, "index")};
  return options;
}

void check_pipeline_of_state(const io::StateTree& state, const PipelineDescription& current,
                             PipelineMatch match) {
  if (state.has(kPipeline))
    check_same_pipeline(load_pipeline_description(state.at(kPipeline)), current, match);
}

void check_same_shard(const Shard& saved, const Shard& current) {
  check_argument(saved == current || (saved.count == 1 && current.count == 1),
                 "A position saved in ", describe(saved), " cannot be restored into ",
                 describe(current), ": use the same shards as before, or begin a new epoch");
}

const io::StateTree& position_of_state(const io::StateTree& state) {
  return state.at("position");
}

void internal::check_source_position(std::uint64_t index, std::int64_t cardinality,
                                     const std::string& name) {
  if (cardinality < 0 || index <= static_cast<std::uint64_t>(cardinality)) return;
  throw_data_too_short(base::str_cat("The saved position is element ", index, " of ", name,
                                     ", which has only ", cardinality));
}

void internal::throw_data_too_short(const std::string& what) {
  refuse(what, ": was it saved from other data?");
}

}  // namespace brigade::data
