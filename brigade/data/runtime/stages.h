#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/concurrency/mutex.h"
#include "brigade/data/runtime/stage_counters.h"
#include "brigade/data/runtime/stage_stats.h"
#include "brigade/data/runtime/tuning.h"

namespace brigade::data {

/// One step of a walk, as it is measured and tuned. Passes, epochs and parallel copies of a step
/// share one.
///
/// Thread-safety: all functions from any thread.
class Stage {
 public:
  Stage(std::string path, std::string name) : path_(std::move(path)), name_(std::move(name)) {}

  StageCounters counters;

  const std::string& path() const { return path_; }
  const std::string& name() const { return name_; }

  /// The settings to run with now; a number that changes with them, to be asked often.
  StageSettings settings() const;
  std::uint64_t version() const { return settings_.load(std::memory_order_relaxed); }
  void set(const StageSettings& settings);

  /// Between these, its threads run.
  void begin() { running_.fetch_add(1, std::memory_order_relaxed); }
  void end() { running_.fetch_sub(1, std::memory_order_relaxed); }
  bool is_running() const { return running_.load(std::memory_order_relaxed) > 0; }

 private:
  const std::string path_;
  const std::string name_;
  std::atomic<std::uint64_t> settings_{0};  // threads and capacity; 0 for a step without threads
  std::atomic<int> running_{0};
};

struct StagesOptions {
  enum class Count {
    kTuned,  ///< The steps that are tuned, which costs next to nothing.
    kAll,    ///< Every step: for `Iterator::stats`. Costs some nanoseconds an element and step.
  };
  Count count = Count::kTuned;
  Tuning tuning{};
};

/// Where the steps of one walk count what they do, and the tuner that acts on it. Make one with
/// `kAll` and give it to `Dataset::iterator` to learn which step holds the walk back:
///
///   auto stages = std::make_shared<Stages>(StagesOptions{.count = StagesOptions::Count::kAll});
///   auto iterator = dataset.iterator({.stages = stages});
///   ...
///   std::cout << describe(iterator.stats());
///
/// Datasets made of an element or a file (flat_map, interleave, from_files) count as part of the
/// step that makes them, and keep the threads they start with.
///
/// Thread-safety: all functions from any thread.
class Stages {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Stages(StagesOptions options = {});
  ~Stages();
  Stages(const Stages&) = delete;
  Stages& operator=(const Stages&) = delete;

  bool counts_all() const { return count_ == StagesOptions::Count::kAll; }
  /// Sets what this walk's own options leave open: for datasets with options.
  void set_default_tuning(const Tuning& tuning);

  /// The step at `path`, for one that has no threads.
  Stage& find_or_add(const std::string& path);
  /// The step at `path`, for one with threads: it begins with `first`, unless another pass of it
  /// was already tuned. Null if nobody measures it.
  Stage* find_or_add(const std::string& path, const StageSettings& first, const StageLimits& limits);

  /// For the steps to call now and then, as they run: looks whether it is time to tune.
  void tick(Clock::time_point now);

  /// What each step did since `clear`, or since the first of them ran; sources first.
  std::vector<StageStats> stats() const;
  void clear();

 private:
  struct Entry;
  Entry& entry_at(const std::string& path) BRIGADE_REQUIRES(mutex_);
  void tune(Clock::time_point now) BRIGADE_REQUIRES(mutex_);
  bool has_seen_enough() const BRIGADE_REQUIRES(mutex_);
  void link() BRIGADE_REQUIRES(mutex_);
  TuningBudget budget() const BRIGADE_REQUIRES(mutex_);

  const StagesOptions::Count count_;
  std::atomic<Clock::time_point::rep> next_tick_;
  mutable concurrency::Mutex mutex_;
  Tuning tuning_ BRIGADE_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Entry>> entries_ BRIGADE_GUARDED_BY(mutex_);
  Tuner tuner_ BRIGADE_GUARDED_BY(mutex_);
  Clock::time_point interval_began_ BRIGADE_GUARDED_BY(mutex_);
  Clock::duration interval_ BRIGADE_GUARDED_BY(mutex_);
  Clock::time_point cleared_ BRIGADE_GUARDED_BY(mutex_);
};

}  // namespace brigade::data
