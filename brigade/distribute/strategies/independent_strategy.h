#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/dataset.h"
#include "brigade/data/transforms/shared_readers.h"
#include "brigade/device/device.h"
#include "brigade/device/placement.h"
#include "brigade/distribute/strategies/median_stopping.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/strategies/trial_result.h"

namespace brigade::distribute {

class TrialTracker;

/// Options of IndependentStrategy.
struct IndependentOptions {
  /// One trial at a time runs on each. Empty: every visible GPU; without a GPU, every core.
  std::vector<std::string> devices = {};
  /// The number of threads of one tensor operation on CPU.
  int threads_per_replica = 1;
  /// Whether a CPU may have more threads, or a higher number, than there are cores for.
  bool allow_oversubscription = false;
  /// The seed of every trial's strategy: trials differ by what `train` makes of their index alone.
  /// A trial that wants another seed makes its own OneDeviceStrategy on `Trial::device`.
  std::uint64_t seed = 0;
  /// What happens if a device scope names a device that does not exist; the placement log.
  device::PlacementOptions placement = {};
  /// Of `Trial::dataset`: see SharedReadersOptions.
  std::int64_t max_ahead = 16;
  /// Which trials to stop early; unset: none.
  std::optional<MedianStopping> stopping = std::nullopt;
  /// Whether the first trial that fails ends the run: the others are cancelled.
  bool stop_on_failure = false;
  /// After this time trials are asked to stop, and none begins. Unset: no limit.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  /// Ends the run: trials are asked to stop, waits for shared data throw kCancelled, and none
  /// begins.
  concurrency::CancelToken cancel = {};
  /// Called when a trial begins, reports or ends, by one thread at a time: for a live table. If it
  /// throws, the run is cancelled and `run` throws that.
  std::function<void(const TrialResult& trial)> on_change = {};
  /// Measures `timeout` and the trials' times; must outlive the run. Null: the system clock.
  const base::Clock* clock = nullptr;
};

/// One training among others: what a trial's function gets. Its device and strategy are its own.
///
/// Thread-safety: the trial's thread; `should_stop` and `cancel` from any.
class Trial {
 public:
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  /// From 0 to the number of trials - 1.
  int index() const { return index_; }
  /// The device of the trial: "cpu:1".
  const std::string& device() const { return options_.device; }
  /// A strategy on that device, made by the first call. It, and what was made by it, ends with the
  /// trial.
  OneDeviceStrategy& strategy();

  /// The elements of `dataset`, made once for all trials that run at the same time. See
  /// IndependentStrategy for which these are.
  template <class T>
  data::Dataset<T> dataset(const data::Dataset<T>& dataset) const {
    return readers_.dataset(dataset, reader_);
  }

  /// Says how good the model is after `epoch` (count from 1). Throws kInvalidArgument for an epoch
  /// that is not later than that of the last report, and if the rule for stopping needs a metric
  /// that is not there.
  void report(std::int64_t epoch, const TrialMetrics& metrics);
  /// Whether the trial should return now, with what it has: by the rule for stopping, after the
  /// run's time, or because the run was cancelled. A trial that returns then counts as stopped.
  bool should_stop() const;
  /// Cancelled with the run. Give it to what waits: iterators, sessions.
  const concurrency::CancelToken& cancel() const { return cancel_; }

 private:
  friend class IndependentStrategy;
  Trial(int index, OneDeviceOptions options, TrialTracker& tracker, data::SharedReaders readers,
        int reader, concurrency::CancelToken cancel);

  const int index_;
  const OneDeviceOptions options_;
  TrialTracker& tracker_;
  const data::SharedReaders readers_;
  const int reader_;
  const concurrency::CancelToken cancel_;
  std::unique_ptr<OneDeviceStrategy> strategy_;
};

/// Separate models: trains each on a separate device, all at the same time in one process, with
/// different hyperparameters. Nothing is exchanged between them. For sweeps of models that fit on
/// one device: they then use all devices without any communication.
///
///   IndependentStrategy independent({.devices = {"cpu:0", "cpu:1"}});
///   const auto results = independent.run(8, [&](Trial& trial) {
///     auto model = trial.strategy().create<models::Mlp>();
///     auto sgd = trial.strategy().optimizer(model, optim::Sgd{.learning_rate =
///     rates[trial.index()]}); for (int epoch = 1; epoch <= 5 && !trial.should_stop(); ++epoch)
///       trial.report(epoch, {{"loss", train_an_epoch(trial.strategy(), model, sgd)}});
///   });
///   std::cout << trial_table(results);
///
/// It is no `Strategy`: every trial has one, a OneDeviceStrategy. A trial's result equals, bit for
/// bit, that of the same function with a OneDeviceStrategy alone (same seed, same kind of device):
/// no random number, variable or sum depends on the others. Trials that outnumber the devices wait
/// in a queue, in order; a device takes the next as soon as it is free.
///
/// **Shared data.** `trial.dataset(examples)` gives every trial the elements of `examples`, which
/// must be made outside of the function. With D devices, trials 0 to D - 1 read together, then D to
/// 2 D - 1, and so on: each such group makes every element once, and has its own passes; so N
/// elements are made ceil(trials / D) times for each epoch. To make them once for all groups, share
/// a dataset that is cached: `trial.dataset(decoded.cache())`, with `cache()` outside as well, if
/// they fit into memory. The fastest trial of a group is at most `max_ahead` elements ahead of its
/// slowest, also of one that has not begun; one that ends, in whatever way, releases the others. So
/// share data if making them takes longer than a step, and trials take about the same time; with
/// early stopping, prefer a cache without sharing.
///
/// **Failures.** A trial that throws ends with its error in the results; others continue, unless
/// `stop_on_failure`. `run` returns when every trial has ended: a function that never returns, and
/// does not ask `should_stop`, is not interrupted.
///
/// TensorFlow has no strategy for this; programs there open a `tf.device` scope per model, or start
/// processes. The words are those of Keras Tuner, Optuna and Ray Tune.
/// Thread-safety: one `run` at a time.
class IndependentStrategy {
 public:
  /// Throws as `device::resolve_devices`, and kInvalidArgument for options out of range.
  explicit IndependentStrategy(IndependentOptions options = {});

  const std::vector<device::Device>& devices() const { return devices_; }

  /// Calls `train(Trial&)` once for each of `trials` trials, on one thread per device, and returns
  /// their results by index. `train` returns TrialMetrics, or nothing: then the metrics are those
  /// of its last report. It is called by several threads at the same time. Throws kInvalidArgument
  /// for fewer than one trial.
  template <class Train>
  std::vector<TrialResult> run(int trials, Train&& train) {
    constexpr bool returns_nothing = std::is_void_v<std::invoke_result_t<Train&, Trial&>>;
    return run_trials(trials, [&](Trial& trial) -> TrialMetrics {
      if constexpr (returns_nothing) {
        train(trial);
        return {};
      } else {
        return train(trial);
      }
    });
  }
  /// A trial for each device.
  template <class Train>
  std::vector<TrialResult> run(Train&& train) {
    return run(static_cast<int>(devices_.size()), train);
  }

  /// How many elements the last run made for `Trial::dataset`.
  std::int64_t shared_elements_made() const { return shared_elements_made_; }

 private:
  using TrainFunction = std::function<TrialMetrics(Trial&)>;
  std::vector<TrialResult> run_trials(int trials, const TrainFunction& train);

  const IndependentOptions options_;
  const std::vector<device::Device> devices_;
  std::int64_t shared_elements_made_ = 0;
};

}  // namespace brigade::distribute
