#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace brigade::concurrency {

/// What a stage of a pipeline does for a micro-batch at a time.
enum class StageWork {
  kForward,
  kBackward,
  kWeightGradient,  ///< that a backward pass, of any stage, has left for a device that is idle
  kSum,             ///< of gradients of several micro-batches
  kOther            ///< after the backward passes: a part of the update
};

/// "forward", "backward", "weight gradient", "sum", "other".
std::string_view to_string(StageWork work);

/// A stage's work for one micro-batch, from the moment it got the stage until it left it.
struct StageSpan {
  StageWork work = StageWork::kForward;
  int micro_batch = 0;
  std::chrono::steady_clock::time_point begin, end;
};

/// Who computed what when in a step of a pipeline, as measured: `StageSlots::timeline`. Between the
/// spans of a stage nobody had it: the stage waited.
///
/// Thread-safety: a value.
struct StageTimeline {
  /// [stage]: in the order of their begins.
  std::vector<std::vector<StageSpan>> stages;

  /// From the first begin of any work but kOther to the last end of it; 0 without any.
  std::chrono::nanoseconds duration() const;
  /// [stage]: the part of `duration` in which it waited: it did no such work.
  std::vector<double> bubbles() const;
  /// The part of the stages' time in which they waited: with equal stages, as soon as passes cost
  /// nothing but their computing, and none leaves work for later, (p-1) / (m+p-1) with p stages
  /// and m micro-batches. 0 without passes.
  double bubble() const;
  /// A line for each stage, of `columns` characters for `duration`, and a line that explains it: of
  /// each moment the last digit of the micro-batch in a forward pass, a letter (a for micro-batch
  /// 0) in a backward pass, a capital for its weight gradients that were left for later, a plus
  /// for a sum, and a dot where the stage waits.
  ///
  ///   stage 0  0001112223333aaaa.bbbb.cccc..dddd  bubble 0.11
  ///   stage 1  ....000aaA111bbB222ccC333ddDDBB+.  bubble 0.16
  ///
  /// Throws kInvalidArgument if `columns` is less than 1.
  std::string text(int columns = 64) const;
};

}  // namespace brigade::concurrency
