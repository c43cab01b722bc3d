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
  kWeightGradient,  ///< that a backward pass, of any stage, has deferred
  kSum,             ///< of gradients of several micro-batches
  kOther            ///< after the backward passes: a part of the update
};

/// "forward", "backward", "weight gradient", "sum", "other".
std::string_view to_string(StageWork work);

/// Work for one micro-batch, from the moment it got the stage until it released it.
struct StageSpan {
  StageWork work = StageWork::kForward;
  int micro_batch = 0;
  std::chrono::steady_clock::time_point begin, end;
};

/// What each stage of a pipeline computed in a step, and when, as measured: `StageSlots::timeline`.
/// Between its spans a stage waited.
///
/// Thread-safety: a value.
struct StageTimeline {
  /// [stage]: in the order in which they began.
  std::vector<std::vector<StageSpan>> stages;

  /// From the first begin of any work but kOther to the last end of it; 0 without any.
  std::chrono::nanoseconds duration() const;
  /// [stage]: the part of `duration` in which it waited: it did no such work.
  std::vector<double> bubbles() const;
  /// The part of the stages' time in which they waited. With p equal stages and m micro-batches it
  /// is (p-1) / (m+p-1) if nothing but the passes takes time and no work is deferred. 0 without
  /// passes.
  double bubble() const;
  /// A line for each stage, in which `columns` characters stand for `duration`, and a legend. A
  /// forward pass is shown by the last digit of its micro-batch, a backward pass by a letter (a for
  /// micro-batch 0), its deferred weight gradients by the capital letter, a sum by a plus, and a
  /// wait by a dot.
  ///
  ///   stage 0  0001112223333aaaa.bbbb.cccc..dddd  bubble 0.11
  ///   stage 1  ....000aaA111bbB222ccC333ddDDBB+.  bubble 0.16
  ///
  /// Throws kInvalidArgument if `columns` is less than 1.
  std::string text(int columns = 64) const;
};

}  // namespace brigade::concurrency
