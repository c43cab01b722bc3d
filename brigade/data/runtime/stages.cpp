#include "brigade/data/runtime/stages.h"

#include <algorithm>
#include <limits>

#include "brigade/base/error.h"
#include "brigade/data/runtime/tuned_stage.h"

namespace brigade::data {

using concurrency::MutexLock;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kFirstInterval{30};  // short, because wrong initial settings cost the most
constexpr milliseconds kLongestInterval{500};
constexpr double kNanoseconds = 1e-9;

// The text after the last " | " that is not inside a step's arguments.
std::string last_step(const std::string& path) {
  int depth = 0;
  for (std::size_t i = path.size(); i > 2; --i) {
    const char c = path[i - 1];
    if (c == ')') ++depth;
    if (c == '(') --depth;
    if (depth == 0 && path.compare(i - 3, 3, " | ") == 0) return path.substr(i);
  }
  return path;
}

bool is_part_of(const std::string& part, const std::string& whole) {
  return part.size() < whole.size() && whole.find(part) != std::string::npos;
}

/// The values of the counters at a time, or their differences.
struct Counts {
  std::uint64_t elements, takes, filled_at_takes, bytes, sized_chunks;
  double consumer_waits, room_waits, pulls, occupied, cpu, run_delay, inclusive;  // seconds
};

/// The values since `before`.
Counts counts_of(const StageCounters& counters, const Counts& before = {}) {
  const auto seconds = [](const AtomicCounter& counter) {
    return static_cast<double>(counter.value()) * kNanoseconds;
  };
  return {.elements = counters.elements.value() - before.elements,
          .takes = counters.takes.value() - before.takes,
          .filled_at_takes = counters.filled_at_takes.value() - before.filled_at_takes,
          .bytes = counters.bytes.value() - before.bytes,
          .sized_chunks = counters.sized_chunks.value() - before.sized_chunks,
          .consumer_waits = seconds(counters.consumer_waits) - before.consumer_waits,
          .room_waits = seconds(counters.room_waits) - before.room_waits,
          .pulls = seconds(counters.pulls) - before.pulls,
          .occupied = seconds(counters.occupied) - before.occupied,
          .cpu = seconds(counters.cpu) - before.cpu,
          .run_delay = seconds(counters.run_delay) - before.run_delay,
          .inclusive = seconds(counters.inclusive) - before.inclusive};
}

double ratio(double part, double whole) {
  return whole > 0 ? std::max(part, 0.0) / whole : 0;
}

}  // namespace

std::exception_ptr cancelled_error() {
  return std::make_exception_ptr(
      Error(ErrorCode::kCancelled, "The iteration over the dataset was cancelled"));
}

StageSettings Stage::settings() const {
  const std::uint64_t both = version();
  return {static_cast<std::size_t>(both >> 32), static_cast<std::size_t>(both & 0xffffffffU)};
}

void Stage::set(const StageSettings& settings) {
  settings_.store((static_cast<std::uint64_t>(settings.threads) << 32) | settings.capacity,
                  std::memory_order_relaxed);
}

struct Stages::Entry {
  Entry(const std::string& path, std::uint64_t its_key)
      : stage(path, last_step(path)), key(its_key) {}

  bool has_threads() const { return stage.version() != 0; }
  bool is_tuned() const { return limits.max_threads > 0 || limits.max_capacity > 0; }
  Counts since(const Counts& before) const { return counts_of(stage.counters, before); }

  Stage stage;
  std::uint64_t key;
  StageLimits limits{};
  Counts cleared{};
  Counts interval{};                   // at the start of the interval
  std::vector<const Entry*> inputs{};  // the steps right before it
  std::vector<const Entry*> waits{};   // the steps with threads that it may have to wait for
  bool feeds_consumer = true;
};

Stages::Stages(StagesOptions options)
    : count_(options.count),
      next_tick_((Clock::now() + kFirstInterval).time_since_epoch().count()),
      tuning_(options.tuning),
      interval_began_(Clock::now()),
      interval_(kFirstInterval),
      cleared_(interval_began_) {
  check_argument(!tuning_.cpu_budget || *tuning_.cpu_budget > 0,
                 "Stages: the CPU budget must be more than 0 cores");
}

Stages::~Stages() = default;

void Stages::set_default_tuning(const Tuning& tuning) {
  MutexLock lock(mutex_);
  if (!tuning_.autotune) tuning_.autotune = tuning.autotune;
  if (!tuning_.cpu_budget) tuning_.cpu_budget = tuning.cpu_budget;
  if (!tuning_.memory_budget) tuning_.memory_budget = tuning.memory_budget;
}

Stages::Entry& Stages::entry_at(const std::string& path) {
  for (const auto& entry : entries_) {
    if (entry->stage.path() == path) return *entry;
  }
  entries_.push_back(std::make_unique<Entry>(path, entries_.size()));
  link();
  return *entries_.back();
}

Stage& Stages::find_or_add(const std::string& path) {
  MutexLock lock(mutex_);
  return entry_at(path).stage;
}

Stage* Stages::find_or_add(const std::string& path, const StageSettings& first,
                           const StageLimits& limits) {
  const bool is_tuned = limits.max_threads > 0 || limits.max_capacity > 0;
  if (!is_tuned && !counts_all()) return nullptr;
  MutexLock lock(mutex_);
  Entry& entry = entry_at(path);
  if (entry.has_threads()) return &entry.stage;
  entry.limits = limits;
  entry.stage.set(first);
  link();
  return &entry.stage;
}

void Stages::link() {
  for (const auto& entry : entries_) {
    entry->inputs.clear();
    entry->waits.clear();
    entry->feeds_consumer = std::ranges::none_of(entries_, [&](const auto& whole) {
      return whole->has_threads() && is_part_of(entry->stage.path(), whole->stage.path());
    });
    const auto nearest = [&](bool with_threads, std::vector<const Entry*>& found) {
      for (const auto& part : entries_) {
        if (with_threads && !part->has_threads()) continue;
        if (!is_part_of(part->stage.path(), entry->stage.path())) continue;
        const bool is_hidden = std::any_of(entries_.begin(), entries_.end(), [&](const auto& each) {
          return (!with_threads || each->has_threads()) &&
                 is_part_of(part->stage.path(), each->stage.path()) &&
                 is_part_of(each->stage.path(), entry->stage.path());
        });
        if (!is_hidden) found.push_back(part.get());
      }
    };
    nearest(false, entry->inputs);
    nearest(true, entry->waits);
  }
}

TuningBudget Stages::budget() const {
  return {.cpu = tuning_.cpu_budget.value_or(static_cast<double>(usable_cores())),
          .memory = static_cast<double>(tuning_.memory_budget.value_or(machine_memory() / 8))};
}

void Stages::tick(Clock::time_point now) {
  auto due = next_tick_.load(std::memory_order_relaxed);
  const auto time = now.time_since_epoch().count();
  // Only the thread that moves `next_tick_` tunes.
  if (time < due || !next_tick_.compare_exchange_strong(
                        due, std::numeric_limits<Clock::time_point::rep>::max())) {
    return;
  }
  MutexLock lock(mutex_);
  if (tuning_.autotune == Autotune::kOff) return;
  if (has_seen_enough()) {
    tune(now);
    interval_began_ = now;
    interval_ = std::min<Clock::duration>(interval_ * 3 / 2, kLongestInterval);
    next_tick_ = (now + interval_).time_since_epoch().count();
  } else {
    next_tick_ = (now + interval_ / 4).time_since_epoch().count();
  }
}

bool Stages::has_seen_enough() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const auto& entry) {
    if (!entry->is_tuned() || !entry->stage.is_running()) return true;
    return entry->since(entry->interval).takes > entry->stage.settings().threads;
  });
}

void Stages::tune(Clock::time_point now) {
  const double seconds = std::chrono::duration<double>(now - interval_began_).count();
  std::vector<StageSample> samples;
  std::vector<std::uint64_t> keys;
  std::vector<Entry*> tuned;
  for (const auto& entry : entries_) {
    const Counts did = entry->since(entry->interval);
    if (!entry->has_threads() || !entry->stage.is_running()) continue;
    double nested = 0;
    for (const Entry* input : entry->waits) nested += input->since(input->interval).consumer_waits;
    samples.push_back(
        {.settings = entry->stage.settings(),
         .limits = entry->limits,
         .busy = std::max(ratio(did.occupied - nested, seconds), ratio(did.cpu, seconds)),
         .cpu = ratio(did.cpu, seconds),
         .serial = ratio(did.pulls - nested, seconds),
         .waited_for = std::min(ratio(did.consumer_waits, seconds), 1.0),
         .full = ratio(did.room_waits, seconds),
         .chunk_bytes =
             ratio(static_cast<double>(did.bytes), static_cast<double>(did.sized_chunks)),
         .rate = ratio(static_cast<double>(did.elements), seconds),
         .feeds_consumer = entry->feeds_consumer});
    keys.push_back(entry->key);
    tuned.push_back(entry.get());
  }
  const auto settings = tuner_.next(samples, keys, budget());
  for (std::size_t i = 0; i < tuned.size(); ++i) tuned[i]->stage.set(settings[i]);
  for (const auto& entry : entries_) entry->interval = counts_of(entry->stage.counters);
}

std::vector<StageStats> Stages::stats() const {
  MutexLock lock(mutex_);
  const double seconds = std::chrono::duration<double>(Clock::now() - cleared_).count();
  std::vector<const Entry*> sorted;
  for (const auto& entry : entries_) sorted.push_back(entry.get());
  std::ranges::stable_sort(sorted, {},
                           [](const Entry* entry) { return entry->stage.path().size(); });
  std::vector<StageStats> stats;
  for (const Entry* entry : sorted) {
    const Counts did = entry->since(entry->cleared);
    const StageSettings settings = entry->stage.settings();
    double waits = 0;
    for (const Entry* each : entry->waits) waits += each->since(each->cleared).consumer_waits;
    double inputs = counts_all() ? 0 : waits;
    if (counts_all()) {
      for (const Entry* each : entry->inputs) inputs += each->since(each->cleared).inclusive;
    }
    const double threads = std::max(1.0, static_cast<double>(settings.threads));
    const double own =
        (entry->has_threads() ? did.occupied + did.run_delay : did.inclusive) - inputs;
    stats.push_back({.name = entry->stage.name(),
                     .elements = did.elements,
                     .elements_per_second = ratio(static_cast<double>(did.elements), seconds),
                     .threads = settings.threads,
                     .capacity = settings.capacity,
                     .queue_depth = ratio(static_cast<double>(did.filled_at_takes),
                                          static_cast<double>(did.takes)),
                     .busy = std::min(1.0, ratio(own, seconds * threads)),
                     .delayed = std::min(1.0, ratio(did.run_delay, seconds * threads)),
                     .stall = std::min(1.0, ratio(did.consumer_waits, seconds)),
                     .starved = std::min(1.0, ratio(waits, seconds))});
  }
  return stats;
}

void Stages::clear() {
  MutexLock lock(mutex_);
  for (const auto& entry : entries_) entry->cleared = counts_of(entry->stage.counters);
  cleared_ = Clock::now();
}

StageSettings TunedStage::begin() {
  if (stage_ == nullptr) return fixed_;
  stage_->begin();
  has_begun_ = true;
  adopted_ = stage_->version();
  return stage_->settings();
}

void TunedStage::end() {
  if (has_begun_) stage_->end();
  has_begun_ = false;
}

std::optional<StageSettings> TunedStage::changes() {
  if (stage_ == nullptr || stage_->version() == adopted_) return std::nullopt;
  adopted_ = stage_->version();
  return stage_->settings();
}

bool TunedStage::should_measure() {
  constexpr std::uint64_t kTakesPerMeasure = 8;
  const std::uint64_t waited = stage_->counters.consumer_waits.value();
  if (waited == waited_ && ++takes_since_measure_ < kTakesPerMeasure) return false;
  waited_ = waited;
  takes_since_measure_ = 0;
  return true;
}

void TunedStage::measure(std::uint64_t bytes_of_chunk) {
  stage_->counters.bytes.add(bytes_of_chunk);
  stage_->counters.sized_chunks.add(1);
  stages_->tick(Stages::Clock::now());
}

}  // namespace brigade::data
