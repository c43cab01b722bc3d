#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "brigade/concurrency/mutex.h"
#include "brigade/data/runtime/autotune.h"
#include "brigade/data/runtime/stage_counters.h"
#include "brigade/data/runtime/stage_stats.h"

namespace brigade::data {

/// The statistics and settings of one step of an iterator. All passes, epochs and parallel copies
/// of the step share one.
///
/// Thread-safety: all functions from any thread.
class Stage {
 public:
  Stage(std::string path, std::string name) : path_(std::move(path)), name_(std::move(name)) {}

  StageCounters counters;

  const std::string& path() const { return path_; }
  const std::string& name() const { return name_; }

  /// The current settings, and a number that changes with them and is cheap to read.
  StageSettings settings() const;
  std::uint64_t version() const { return settings_.load(std::memory_order_relaxed); }
  void set(const StageSettings& settings);

  /// Call `begin` when the step's threads start, and `end` when they have ended.
  void begin() { running_.fetch_add(1, std::memory_order_relaxed); }
  void end() { running_.fetch_sub(1, std::memory_order_relaxed); }
  bool is_running() const { return running_.load(std::memory_order_relaxed) > 0; }

 private:
  const std::string path_;
  const std::string name_;
  std::atomic<std::uint64_t> settings_{0};  // threads and capacity; 0 for a step without threads
  std::atomic<int> running_{0};
};

/// Options of Stages: which stages of a pipeline are counted, and the budgets of `kAutotune`.
struct StagesOptions {
  /// Which steps of the pipeline are counted.
  enum class Count {
    kTuned,  ///< Only the steps that are tuned. Costs next to nothing.
    kAll,    ///< Every step: for `Iterator::stats`. Costs some nanoseconds per element and step.
  };
  Count count = Count::kTuned;
  /// The budgets of `kAutotune`: threads and memory.
  Tuning tuning{};
};

/// Collects the statistics of the steps of one iterator, and tunes the steps. Create one with
/// `kAll` and pass it to `Dataset::iterator` to find the step that limits the throughput:
///
///   auto stages = std::make_shared<Stages>(StagesOptions{.count = StagesOptions::Count::kAll});
///   auto iterator = dataset.iterator({.stages = stages});
///   ...
///   std::cout << describe(iterator.stats());
///
/// Datasets that are made from an element or a file (flat_map, interleave, from_files) count as
/// part of the step that makes them, and keep their initial number of threads.
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
  /// Sets the values that are not set yet: for `Dataset::with_options`.
  void set_default_tuning(const Tuning& tuning);

  /// The step at `path`, for a step without threads.
  Stage& find_or_add(const std::string& path);
  /// The step at `path`, for a step with threads. It starts with the settings `first`, unless it
  /// already has settings from another pass. Null if it is not measured.
  Stage* find_or_add(const std::string& path, const StageSettings& first,
                     const StageLimits& limits);

  /// Tunes the steps if it is time to. The steps call it regularly while they run.
  void tick(Clock::time_point now);

  /// The statistics of each step since `clear`, or since this was created; sources first.
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
