#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "brigade/io/state_tree.h"

namespace brigade::data {

/// One step of a dataset, spelled as far as it decides the elements: "batch(32)". What may differ
/// between machines and runs (threads, folders, buffered elements) is left out.
struct PipelineStep {
  std::string text;
  /// The part of `text` that says more than how many elements the step takes together, how often
  /// or how long: "batch". Otherwise all of it.
  std::string fixed;

  /*implicit*/ PipelineStep(std::string step) : text(step), fixed(std::move(step)) {}  // NOLINT
  PipelineStep(std::string step, std::string fixed_part)
      : text(std::move(step)), fixed(std::move(fixed_part)) {}
  bool operator==(const PipelineStep&) const = default;
};

/// The steps of a dataset, its source first. Two datasets with equal recipes are meant to be the
/// same: files of elements and saved positions are refused where theirs is another one.
using PipelineDescription = std::vector<PipelineStep>;

/// How much of the recipe must be the same where a saved position is restored.
enum class PipelineMatch {
  kExact,          ///< All of it.
  kIgnoreLengths,  ///< The sizes of batches and the counts of `take` and `repeat` may be others: for
                  ///< a job that goes on for longer, or on another number of replicas. The walk
                  ///< goes on behind the last element it had, and the log says what is different.
};

/// "range(10) | shuffle(4) | batch(32)".
std::string describe(const PipelineDescription& pipeline);

/// The recipe as a part of a state. Bytes that are no ASCII are written as "\xc3".
io::StateTree save_pipeline_description(const PipelineDescription& pipeline);
/// Throws kInvalidArgument if the state is no recipe.
PipelineDescription load_pipeline_description(const io::StateTree& state);

/// Nothing if both are the same, otherwise what the first difference is, as a clause: "step 3 is
/// batch(32) there and batch(64) here".
std::string difference(const PipelineDescription& there, const PipelineDescription& here);

/// Throws kInvalidArgument, naming the first step that differs, unless a position saved in `saved`
/// may be gone on from in `own`; logs a warning where only lengths differ and may.
void check_same_pipeline(const PipelineDescription& saved, const PipelineDescription& own, PipelineMatch check);

}  // namespace brigade::data
