#include "brigade/train/evaluation/evaluation_loop.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::train {

using base::str_cat;
using checkpoint::Checkpoint;

namespace {

/// One evaluation, or nothing if the checkpoint is gone or the evaluation was cancelled.
std::optional<EvaluationReport> try_evaluate(TrainingState& state, const Checkpoint& checkpoint,
                                             const Evaluation& evaluation,
                                             const EvaluationOptions& options) {
  try {
    return evaluate_once(state, checkpoint, evaluation, options);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled && options.cancel.is_cancelled()) return std::nullopt;
    if (options.environment.files->exists(checkpoint.path())) throw;
    base::log_warning(str_cat("Skipped ", checkpoint.path().string(),
                              ", which was removed before it could be evaluated: ", error.what()));
    return std::nullopt;
  }
}

}  // namespace

std::optional<EvaluationReport> evaluation_loop(TrainingState& state, const io::Path& directory,
                                                const Evaluation& evaluation,
                                                const EvaluationLoopOptions& options) {
  const auto& most = options.max_number_of_evaluations;
  if (most && *most <= 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        str_cat("max_number_of_evaluations is ", std::to_string(*most), "; it must be above 0."));
  }
  CheckpointsIterator checkpoints(directory, {.min_interval = options.interval,
                                              .timeout = options.timeout,
                                              .timeout_fn = options.timeout_fn,
                                              .poll = options.poll,
                                              .cancel = options.each.cancel,
                                              .environment = options.each.environment});
  EvaluationOptions each = options.each;
  each.summary_dir.clear();  // all results go into one file
  const base::SystemClock clock;
  std::optional<summary::SummaryWriter> summaries;
  if (!options.each.summary_dir.empty())
    summaries.emplace(each.environment.files, options.each.summary_dir, clock);

  std::optional<EvaluationReport> last;
  for (std::int64_t done = 0; !most || done < *most;) {
    const auto checkpoint = checkpoints.next();
    if (!checkpoint) break;
    auto evaluated = try_evaluate(state, *checkpoint, evaluation, each);
    if (!evaluated) continue;
    ++done;
    if (summaries) write_results(*summaries, *evaluated);
    if (options.on_evaluated) options.on_evaluated(*evaluated);
    last = std::move(evaluated);
  }
  if (summaries) summaries->close();
  return last;
}

}  // namespace brigade::train
