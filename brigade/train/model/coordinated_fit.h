#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "brigade/distribute/coordination.h"
#include "brigade/distribute/strategy.h"
#include "brigade/io/state_tree.h"
#include "brigade/train/callbacks/history.h"
#include "brigade/train/model/class_weights.h"
#include "brigade/train/model/epoch_iterator.h"
#include "brigade/train/model/fit_loop.h"
#include "brigade/train/model/fit_steps.h"
#include "brigade/train/model/model_batches.h"
#include "brigade/train/model/trainer.h"

/// `Model::fit` and `Model::evaluate` under a strategy whose chief coordinates: what the chief
/// schedules, and the functions of the workers; for the sources of `Model` only.
///
/// Metrics are sums, so each function returns those of its own batches, and the chief adds up the
/// results, of which each function has one, however often it was run. Statistics of layers (batch
/// norm's) are those of the worker whose step is the last that the chief knows of; it takes them
/// over, and gives them to whoever evaluates.
namespace brigade::train::internal {

/// Batches that the workers evaluate for the chief, each once.
struct DividedBatches {
  /// Read by each worker in the same order.
  GlobalBatches global_batches;
  std::optional<std::int64_t> steps = std::nullopt;  ///< the first batches; unset: all

  /// If known.
  std::optional<std::int64_t> count() const;
};
/// Throws kInvalidArgument if there is no end.
void check_ends(const DividedBatches& batches);

/// What a worker does in a phase. What it is given must outlive it.
///
/// Thread-safety: one thread.
class WorkersPart {
 public:
  WorkersPart(distribute::Strategy& strategy, Trainer& trainer,
              std::optional<ClassWeights> class_weights = std::nullopt)
      : strategy_(strategy), trainer_(trainer), class_weights_(std::move(class_weights)) {}

  /// A step on the next batch of this worker's data, which is repeated.
  distribute::RemoteFunction training(EpochIterator& iterator);
  /// The metrics over a range of these batches, with the servers' variables.
  distribute::RemoteFunction evaluation(DividedBatches batches);

 private:
  distribute::RemoteData train(EpochIterator& iterator);
  distribute::RemoteData evaluate(const distribute::RemoteData& arguments);
  void begin_evaluation(const distribute::RemoteData& arguments);
  void move_to(std::int64_t batch);

  distribute::Strategy& strategy_;
  Trainer& trainer_;
  const std::optional<ClassWeights> class_weights_;
  std::optional<DividedBatches> evaluated_;
  std::optional<GlobalBatches::Reader> reader_;  // of evaluated_
  std::int64_t position_ = 0;                    // of reader_
  std::int64_t evaluation_ = -1;                 // whose variables and statistics this worker has
};

/// What the chief does in a phase. What it is given must outlive it.
///
/// Thread-safety: one thread.
class ChiefsPart {
 public:
  ChiefsPart(distribute::Strategy& strategy, Trainer& trainer, distribute::CoordinatedPhase& phase);

  /// A step of a worker. Schedules up to `left` steps, the last of an epoch, ahead.
  std::optional<FitStep> step(const FitSteps::Request& request);
  /// Drops the steps that are scheduled.
  void drop() { phase_.drop(); }
  /// The metrics over all batches, which are then reset. Nothing if it should stop; then they are
  /// as before.
  std::optional<Logs> evaluate(const DividedBatches& batches,
                               const std::function<bool()>& should_stop);

 private:
  std::optional<distribute::RemoteData> next_result(const std::function<bool()>& should_stop);

  distribute::Strategy& strategy_;
  Trainer& trainer_;
  distribute::CoordinatedPhase& phase_;
  const std::int64_t ahead_;  // functions that are scheduled at the same time
  std::int64_t evaluations_;  // not those of an earlier chief, which workers may have seen
};

/// The steps of a fit that workers make. The variables of this process are up to date at the end of
/// an epoch, also of one that ends early.
class CoordinatedSteps final : public FitSteps {
 public:
  CoordinatedSteps(distribute::Strategy& strategy, Trainer& trainer,
                   distribute::CoordinatedPhase& phase, std::optional<DividedBatches> validation)
      : strategy_(strategy), chief_(strategy, trainer, phase), validation_(std::move(validation)) {}

  void add_to(TrainingState&) override {}  // workers read the data
  std::optional<std::int64_t> pass_length() const override { return std::nullopt; }
  bool has_next() override { return true; }  // workers repeat their data
  std::optional<FitStep> next(const Request& request) override { return chief_.step(request); }
  void stop_early() override;
  void complete_epoch() override { strategy_.fetch_state(); }
  std::optional<Logs> validate(const std::function<bool()>& should_stop) override;
  void start_next_pass() override {}

 private:
  distribute::Strategy& strategy_;
  ChiefsPart chief_;
  const std::optional<DividedBatches> validation_;
};

/// What the chief gives to all workers at the end of a phase, and back. The functions that read
/// throw kInvalidArgument for what those that write cannot have written.
io::StateTree outcome_of(const History& history);
io::StateTree outcome_of(const Logs& logs);
History history_of(const io::StateTree& outcome);
Logs logs_of(const io::StateTree& outcome);

}  // namespace brigade::train::internal
