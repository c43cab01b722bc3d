#include "brigade/distribute/strategies/independent_strategy.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/concurrency/first_error.h"
#include "brigade/distribute/strategies/trial_tracker.h"
#include "brigade/distribute/strategy_parts.h"

namespace brigade::distribute {
namespace {

IndependentOptions checked_options(IndependentOptions options) {
  check_argument(options.max_ahead >= 1, "IndependentStrategy: max_ahead is ", options.max_ahead,
                 "; it must be at least 1.");
  check_argument(!options.timeout || options.timeout->count() > 0,
                 "IndependentStrategy: the timeout must be longer than 0.");
  if (options.stopping) options.stopping->check();
  return options;
}

/// While it lives, a trial reads shared datasets.
class ReaderScope {
 public:
  ReaderScope(const data::SharedReaders& readers, int reader)
      : readers_(readers), reader_(reader) {}
  ~ReaderScope() { readers_.end(reader_); }
  ReaderScope(const ReaderScope&) = delete;
  ReaderScope& operator=(const ReaderScope&) = delete;

 private:
  const data::SharedReaders& readers_;
  const int reader_;
};

}  // namespace

Trial::Trial(int index, OneDeviceOptions options, TrialTracker& tracker,
             data::SharedReaders readers, int reader, concurrency::CancelToken cancel)
    : index_(index),
      options_(std::move(options)),
      tracker_(tracker),
      readers_(std::move(readers)),
      reader_(reader),
      cancel_(std::move(cancel)) {}

OneDeviceStrategy& Trial::strategy() {
  if (!strategy_) strategy_ = std::make_unique<OneDeviceStrategy>(options_);
  return *strategy_;
}

void Trial::report(std::int64_t epoch, const TrialMetrics& metrics) {
  tracker_.report(index_, epoch, metrics);
}

bool Trial::should_stop() const {
  return tracker_.should_stop(index_);
}

IndependentStrategy::IndependentStrategy(IndependentOptions options)
    : options_(checked_options(std::move(options))),
      devices_(choose_devices(options_.devices,
                              {.threads_per_cpu = options_.threads_per_replica,
                               .allow_oversubscription = options_.allow_oversubscription})) {}

std::vector<TrialResult> IndependentStrategy::run_trials(int trials, const TrainFunction& train) {
  const concurrency::LinkedToken cancel(options_.cancel);
  TrialTracker tracker({.trials = trials,
                        .stopping = options_.stopping,
                        .timeout = options_.timeout,
                        .stop_on_failure = options_.stop_on_failure,
                        .cancel = cancel.token(),
                        .on_change = options_.on_change,
                        .clock = options_.clock});
  const int at_once = std::min(trials, static_cast<int>(devices_.size()));
  std::vector<data::SharedReaders> groups;
  for (int first = 0; first < trials; first += at_once)
    groups.emplace_back(data::SharedReadersOptions{.readers = std::min(at_once, trials - first),
                                                   .max_ahead = options_.max_ahead,
                                                   .cancel = cancel.token()});
  const auto run_trial = [&](int index, const device::Device& device) {
    const data::SharedReaders& readers = groups[static_cast<std::size_t>(index / at_once)];
    const int reader = index % at_once;
    const ReaderScope reading(readers, reader);
    TrialMetrics metrics;
    try {
      // The devices were checked together: one alone may have too high a number.
      Trial trial(index,
                  {.device = device.name.to_string(),
                   .threads_per_replica = options_.threads_per_replica,
                   .allow_oversubscription = true,
                   .seed = options_.seed,
                   .placement = options_.placement},
                  tracker, readers, reader, cancel.token());
      metrics = train(trial);
    } catch (...) {
      return tracker.fail(index, std::current_exception());
    }
    tracker.complete(index, std::move(metrics));
  };
  concurrency::FirstError error;
  const auto serve = [&](const device::Device& device) {
    try {
      at::get_num_threads();  // as in ThreadRunner: first the default, then this thread's
      at::set_num_threads(device.threads);
      while (const auto index = tracker.begin_next(device.name.to_string()))
        run_trial(*index, device);
    } catch (...) {  // of `on_change`
      error.set(std::current_exception());
      cancel.cancel();
    }
    // What has not begun never will: nobody may wait for it.
    for (int never = tracker.first_queued(); never < trials; ++never)
      groups[static_cast<std::size_t>(never / at_once)].end(never % at_once);
  };
  const int callers_threads = at::get_num_threads();
  {
    std::vector<std::jthread> threads;
    for (int device = 0; device < at_once; ++device)
      threads.emplace_back([&, device] { serve(devices_[static_cast<std::size_t>(device)]); });
  }
  at::set_num_threads(callers_threads);
  shared_elements_made_ = 0;
  for (const data::SharedReaders& group : groups) shared_elements_made_ += group.elements_read();
  error.rethrow();
  return tracker.take_results();
}

}  // namespace brigade::distribute
