#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "brigade/data/core/node.h"
#include "brigade/data/core/pipeline_description.h"
#include "brigade/io/state_tree.h"

namespace brigade::data {

/// A number in a saved position, with its name.
struct PositionNumber {
  std::string_view name;
  std::uint64_t value;
};

/// The state of one transform: its name, its numbers, and the state of its input if it has one.
/// Each transform's `save` returns one, so that `restore` detects a state of another transform.
io::StateTree make_position(std::string_view transform,
                            std::initializer_list<PositionNumber> numbers,
                            std::optional<io::StateTree> input = std::nullopt);

/// Throws kInvalidArgument unless `state` was made by `make_position(transform, ...)`.
void check_position(const io::StateTree& state, std::string_view transform);

/// One of the numbers. Throws kInvalidArgument if it is missing.
std::uint64_t position_number(const io::StateTree& state, std::string_view name);

/// The state of the input. Throws kInvalidArgument if it is missing.
const io::StateTree& position_input(const io::StateTree& state);
bool has_position_input(const io::StateTree& state);

/// The result of `Iterator::save`: seed, epoch and shard, the pipeline description of the dataset,
/// and the position in it.
io::StateTree iterator_state(const IteratorOptions& options, const PipelineDescription& pipeline,
                             io::StateTree position);
IteratorOptions options_of_state(const io::StateTree& state);
/// Throws kInvalidArgument, naming the first step that differs, unless the state was saved in a
/// dataset whose description matches `current`. A state without a description, as old versions
/// saved it, passes.
void check_pipeline_of_state(const io::StateTree& state, const PipelineDescription& current,
                             PipelineMatch match);
/// Throws kInvalidArgument unless a position saved in shard `saved` can be restored into `current`.
void check_same_shard(const Shard& saved, const Shard& current);
const io::StateTree& position_of_state(const io::StateTree& state);

namespace internal {

/// Throws kInvalidArgument if `index`, a saved position in a source or in the input of a step, is
/// past its end. Checks nothing if `cardinality` is `kInfinite` or `kUnknown`.
void check_source_position(std::uint64_t index, std::int64_t cardinality, const std::string& name);

/// Throws kInvalidArgument: a saved position is past the end of data that is now shorter. `what`
/// says which, as a sentence without its end.
[[noreturn]] void throw_data_too_short(const std::string& what);

}  // namespace internal

}  // namespace brigade::data
