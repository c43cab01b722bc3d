#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "apps/brigade/device_normalization.h"
#include "apps/brigade/interrupt.h"
#include "apps/brigade/training_step.h"
#include "brigade/base/clock.h"
#include "brigade/base/error.h"
#include "brigade/data/dataset.h"
#include "brigade/optim/moving_average.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/hooks/hook.h"
#include "brigade/train/hooks/step_timer.h"
#include "brigade/train/model/evaluate.h"
#include "brigade/train/session/session_context.h"
#include "brigade/train/session/training_state.h"

namespace brigade::command {

/// Evaluates a model while it is trained, without influence on the training: the weights are the
/// same as without it. An interval in steps is due at its multiples, so a resumed run is evaluated
/// at the same steps as an uninterrupted one; with parameter servers at the chief's first step from
/// a multiple on. Checkpoints contain the results. Borrows everything but the batches.
class EvaluationHook final : public train::SessionRunHook {
 public:
  struct Options {
    distribute::Strategy& strategy;
    const Model& model;
    data::Dataset<input::LabeledBatch> batches;
    const Interrupt& interrupt;
    /// Applied to the batches on the replicas' devices; null: nothing.
    ReplicaNormalizer normalizer = nullptr;
    train::Every every = {};
    /// The values of the weights; null: those that are trained.
    optim::ExponentialMovingAverage* averages = nullptr;
    /// Where event files go; empty: nowhere.
    io::Path directory = {};
  };
  explicit EvaluationHook(Options options);

  void begin(train::SessionContext& context) override;
  void after_create_session(train::SessionContext& context) override;
  void after_run(train::SessionContext& context, const train::StepValues& values) override;

  /// The result at `step`, the model's current step. Evaluates unless that was done at this step.
  /// Nothing if a signal came meanwhile.
  std::optional<train::EvaluationResult> evaluate(std::int64_t step);

  /// By step, including earlier processes of the run.
  const std::map<std::int64_t, train::EvaluationResult>& results() const { return results_; }
  /// The time that evaluations have taken in this process.
  std::chrono::steady_clock::duration time() const { return time_; }

 private:
  bool is_due_by_time(const train::SessionContext& context) const;
  bool is_multiple(std::int64_t step) const;
  /// Whether a multiple is after step `last`, up to `step`: other workers' steps count too, so that
  /// this one's need not be consecutive.
  bool is_due_by_steps(std::int64_t step, std::int64_t last) const;
  void write(std::int64_t step, const train::EvaluationResult& result);
  train::Checkpointable checkpointable();

  Options options_;
  const base::SystemClock clock_;
  std::optional<train::StepTimer> timer_;
  std::optional<std::size_t> chiefs_timer_;  // with a time
  std::int64_t last_step_ = 0;
  std::unique_ptr<summary::SummaryWriter> summaries_;
  std::map<std::int64_t, train::EvaluationResult> results_;
  std::chrono::steady_clock::duration time_{0};
};

/// `batches`, which fail with kCancelled at the next one after a signal.
data::Dataset<input::LabeledBatch> until_interrupted(
    const data::Dataset<input::LabeledBatch>& batches, const Interrupt& interrupt);

/// `work(batches)`, stopped at the next batch after a signal: then nothing is returned. A
/// collective of several workers is not stopped: one must not stop alone.
template <class Work>
auto unless_interrupted(const distribute::Strategy& strategy,
                        const data::Dataset<input::LabeledBatch>& batches,
                        const Interrupt& interrupt, const Work& work)
    -> std::optional<decltype(work(batches))> {
  if (strategy.has_worker_collectives()) return work(batches);
  try {
    return work(until_interrupted(batches, interrupt));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled || !interrupt.received()) throw;
    return std::nullopt;
  }
}

/// `train::evaluate`, stopped at the next batch after a signal: then nothing is returned.
std::optional<train::EvaluationResult> evaluate_unless_interrupted(
    distribute::Strategy& strategy, const Model& model,
    const data::Dataset<input::LabeledBatch>& batches, const Interrupt& interrupt,
    const train::ClassifierEvaluationOptions& options = {});

}  // namespace brigade::command
