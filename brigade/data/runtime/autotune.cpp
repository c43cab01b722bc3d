#include "brigade/data/runtime/autotune.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "brigade/base/error.h"

namespace brigade::data {
namespace {

constexpr std::int64_t kMaxThreads = 1024;
constexpr std::int64_t kMaxDepth = 65536;  // each slot takes memory from the start

constexpr double kHeadroom = 1.25;    // over what the consumer takes, since both sides vary
constexpr double kTolerance = 0.1;    // no further thread for less than a tenth of its time
constexpr double kNoticeable = 0.01;  // of the time
constexpr std::size_t kIntervalsToLower = 3;
constexpr double kWorthwhile = 0.3;  // of the gain that more threads promise
constexpr int kIntervalsHeld = 20;   // ten seconds, once intervals are long

double speedup_for_consumer(std::span<const StageSample> steps) {
  double waited = 0;
  for (const StageSample& step : steps) {
    if (step.feeds_consumer) waited += step.waited_for;
  }
  return kHeadroom / std::max(1 - waited, 0.01);
}

double possible_speedup(std::span<const StageSample> steps, const TuningBudget& budget) {
  double speedup = speedup_for_consumer(steps);
  double cpu = 0;
  for (const StageSample& step : steps) {
    cpu += step.cpu;
    if (step.serial > 0) speedup = std::min(speedup, 1 / step.serial);
    if (step.limits.max_threads > 0 || step.busy <= 0) continue;
    speedup = std::min(speedup, static_cast<double>(step.settings.threads) / step.busy);
  }
  if (cpu > 0) speedup = std::min(speedup, budget.cpu / cpu);
  return speedup;
}

std::size_t needed_threads(const StageSample& step, double speedup) {
  if (step.limits.max_threads == 0) return step.settings.threads;
  const double needed = std::ceil(speedup * step.busy - kTolerance);
  const auto most = static_cast<double>(step.limits.max_threads);
  return static_cast<std::size_t>(std::clamp(needed, 1.0, most));
}

std::size_t needed_capacity(const StageSample& step, std::size_t threads) {
  const std::size_t now = step.settings.capacity;
  if (step.limits.max_capacity == 0) return now;
  const bool swings = step.waited_for > kNoticeable && step.full > kNoticeable;
  const std::size_t for_threads = step.limits.max_threads > 0 ? 2 * threads : 1;
  return std::min(std::max(swings ? 2 * now : now, for_threads), step.limits.max_capacity);
}

void fit_memory(std::span<const StageSample> steps, double budget,
                std::vector<StageSettings>& settings) {
  double bytes = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    bytes += static_cast<double>(settings[i].capacity) * steps[i].chunk_bytes;
  }
  if (bytes <= budget) return;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].limits.max_capacity == 0 || steps[i].chunk_bytes <= 0) continue;
    const double fitting = static_cast<double>(settings[i].capacity) * budget / bytes;
    settings[i].capacity = std::max<std::size_t>(1, static_cast<std::size_t>(fitting));
  }
}

}  // namespace

std::size_t usable_cores() {
  return std::max(1U, std::thread::hardware_concurrency());  // follows the affinity mask
}

std::size_t max_tuned_threads() {
  return std::max<std::size_t>(16, 2 * usable_cores());
}

std::size_t max_trial_threads() {
  return 8 * max_tuned_threads();
}

std::uint64_t machine_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  constexpr std::uint64_t kModest = std::uint64_t{1} << 30;
  if (pages <= 0 || page <= 0) return kModest;
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
}

std::size_t threads_for(std::int64_t parallelism, std::string_view transform) {
  if (parallelism == kAutotune) return std::min<std::size_t>(usable_cores(), 16);
  check_argument(parallelism >= 1 && parallelism <= kMaxThreads, transform, ": parallelism is ",
                 parallelism, "; it must be 1 to ", kMaxThreads, ", or kAutotune");
  return static_cast<std::size_t>(parallelism);
}

std::size_t depth_for(std::int64_t count, std::string_view transform) {
  if (count == kAutotune) return std::clamp<std::size_t>(usable_cores(), 2, 8);
  check_argument(count >= 1, transform, ": ", count,
                 " elements to prefetch; it must be 1 or more, or kAutotune");
  return static_cast<std::size_t>(std::min(count, kMaxDepth));
}

std::vector<StageSettings> propose(std::span<const StageSample> steps, const TuningBudget& budget) {
  const double speedup = possible_speedup(steps, budget);
  std::vector<StageSettings> settings;
  for (const StageSample& step : steps) {
    const std::size_t threads = needed_threads(step, speedup);
    settings.push_back({threads, needed_capacity(step, threads)});
  }
  fit_memory(steps, budget.memory, settings);
  return settings;
}

Tuner::History& Tuner::history(std::uint64_t key) {
  for (History& each : histories_) {
    if (each.key == key) return each;
  }
  return histories_.emplace_back(History{.key = key});
}

std::size_t Tuner::damped(History& past, const StageSample& step, std::size_t proposed) {
  const std::size_t now = step.settings.threads;
  past.threads.push_back(proposed);
  if (past.threads.size() > kIntervalsToLower) past.threads.erase(past.threads.begin());
  if (proposed >= now) return std::min(proposed, 2 * now);
  if (past.threads.size() < kIntervalsToLower) return now;
  return std::min(now, *std::ranges::max_element(past.threads));
}

std::size_t Tuner::apply_trial(History& past, const StageSample& step, std::size_t threads) {
  const std::size_t now = step.settings.threads;
  if (past.trial) {
    const Trial trial = *std::exchange(past.trial, std::nullopt);
    const double raise = static_cast<double>(now) / static_cast<double>(trial.threads_before) - 1;
    if (step.rate < trial.rate_before * (1 + kWorthwhile * raise)) {
      past.max_threads = trial.threads_before;
      past.intervals_held = kIntervalsHeld;
    }
  }
  if (past.intervals_held > 0) {
    --past.intervals_held;
    threads = std::min(threads, past.max_threads);
  }
  const bool is_safe = step.limits.safe_threads == 0 || threads <= step.limits.safe_threads;
  if (threads > now && !is_safe) past.trial = Trial{now, step.rate};
  return threads;
}

std::vector<StageSettings> Tuner::next(std::span<const StageSample> steps,
                                       std::span<const std::uint64_t> keys,
                                       const TuningBudget& budget) {
  std::vector<StageSettings> settings = propose(steps, budget);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    History& past = history(keys[i]);
    settings[i].threads = apply_trial(past, steps[i], damped(past, steps[i], settings[i].threads));
  }
  return settings;
}

}  // namespace brigade::data
