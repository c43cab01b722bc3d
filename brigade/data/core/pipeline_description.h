#pragma once

#include <string>
#include <vector>

#include "brigade/io/state_tree.h"

namespace brigade::data {

/// One step of a dataset as text, with the options that decide the elements: "batch(32)". Options
/// that may differ between machines and runs (threads, folders, buffer sizes) are left out.
struct PipelineStep {
  std::string text;
  /// `text` without batch sizes and the counts of `take` and `repeat`: "batch". It is equal to
  /// `text` if the step has none.
  std::string fixed;

  /*implicit*/ PipelineStep(std::string step) : text(step), fixed(std::move(step)) {}  // NOLINT
  PipelineStep(std::string step, std::string fixed_part)
      : text(std::move(step)), fixed(std::move(fixed_part)) {}
  bool operator==(const PipelineStep&) const = default;
};

/// The steps of a dataset, its source first. Datasets with equal descriptions are assumed to be the
/// same. Files of elements and saved positions are refused if their description differs.
using PipelineDescription = std::vector<PipelineStep>;

/// How closely the pipeline must match the one in which a position was saved, to restore it.
enum class PipelineMatch {
  kExact,  ///< All steps must be the same.
  /// Batch sizes and the counts of `take` and `repeat` may differ: for a job that is made longer,
  /// or resumes on another number of replicas. The iteration resumes after the last element that it
  /// returned, and a warning is logged that says what differs.
  kIgnoreLengths,
};

/// "range(10) | shuffle(4) | batch(32)".
std::string describe(const PipelineDescription& pipeline);

/// The description as a part of a state. Bytes that are not ASCII are written as "\xc3".
io::StateTree save_pipeline_description(const PipelineDescription& pipeline);
/// Throws kInvalidArgument if the state is not a pipeline description.
PipelineDescription load_pipeline_description(const io::StateTree& state);

/// The first difference, as a clause: "step 3 is batch(32) there and batch(64) here". Empty if both
/// are the same.
std::string difference(const PipelineDescription& there, const PipelineDescription& here);

/// Throws kInvalidArgument, naming the first step that differs, unless a position saved in `saved`
/// can be restored into `current`. Logs a warning if only lengths differ and `match` allows that.
void check_same_pipeline(const PipelineDescription& saved, const PipelineDescription& current,
                         PipelineMatch match);

}  // namespace brigade::data
