#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace brigade::data {

/// Instead of a number of threads or of buffered elements: Brigade chooses the number, and adjusts
/// it while the iterator runs (`propose` has the rule, `Tuning` the budget). It starts
/// with one map thread per core (at most 16), and as many buffered elements as cores, but at least
/// 2 and at most 8. The results never depend on it.
///
/// TensorFlow counterpart: tf.data.AUTOTUNE.
inline constexpr std::int64_t kAutotune = -1;

/// The number of map threads meant by `parallelism`. Throws kInvalidArgument unless it is
/// `kAutotune` or in 1 ... 1024.
std::size_t threads_for(std::int64_t parallelism, std::string_view transform);

/// The number of prefetched elements meant by `count`, at most 65536. Throws kInvalidArgument
/// unless it is `kAutotune` or at least 1.
std::size_t depth_for(std::int64_t count, std::string_view transform);

/// The limits of `kAutotune` for the threads of one step, and for the chunks in its buffer.
std::size_t max_tuned_threads();
/// The limit of threads on trial, which are removed again if they do not help (`Tuner`).
std::size_t max_trial_threads();
inline constexpr std::size_t kMaxTunedDepth = 64;

/// The cores that this process may use, and the bytes of memory that the machine has.
std::size_t usable_cores();
std::uint64_t machine_memory();

/// Whether the steps of a pipeline are tuned while they run.
enum class Autotune {
  kOn,   ///< Steps with `kAutotune` are adjusted while they run.
  kOff,  ///< They keep their initial settings.
};

/// The budget of `kAutotune`. The elements never depend on it.
///
/// TensorFlow counterpart: tf.data.Options().autotune.
struct Tuning {
  /// Unset: on.
  std::optional<Autotune> autotune{};
  /// CPU time for all threads of the iterator together, in cores. Unset: the cores that this
  /// process may use. If the replicas need a known number of cores, set it to the rest.
  std::optional<double> cpu_budget{};
  /// The most bytes of elements in the iterator's buffers, as far as `ByteSize` knows them. Unset:
  /// an eighth of the machine's memory.
  std::optional<std::uint64_t> memory_budget{};
};

/// The settings of a pipelined step that may change while it runs.
struct StageSettings {
  std::size_t threads = 1;
  std::size_t capacity = 1;  ///< The most chunks in progress or ready.
  friend bool operator==(const StageSettings&, const StageSettings&) = default;
};

/// The limits of the settings of a step.
struct StageLimits {
  std::size_t max_threads = 0;   ///< 0: the number of threads is fixed.
  std::size_t max_capacity = 0;  ///< 0: the capacity is fixed.
  /// Threads beyond this number are added on trial only. 0: none are on trial.
  std::size_t safe_threads = 0;
};

/// What a pipelined step did in an interval. Times are fractions of the interval: 1 is one thread,
/// or one core, all the time.
struct StageSample {
  StageSettings settings{};
  StageLimits limits{};
  double busy = 0;        ///< Its workers on elements: on a core, or blocked by their own work.
  double cpu = 0;         ///< Its workers on a core.
  double serial = 0;      ///< A worker reading from the input, which one does at a time.
  double waited_for = 0;  ///< Its consumer waiting for a result.
  double full = 0;        ///< One of its workers waiting for a free slot.
  double chunk_bytes = 0;
  double rate = 0;              ///< Elements per second that it returned.
  bool feeds_consumer = false;  ///< No pipelined step is between it and the consumer.
};

/// What all tuned steps of an iterator may use together: cores, and bytes of buffers.
struct TuningBudget {
  double cpu = 1;
  double memory = 1e9;
};

/// The settings that suit the steps, by the samples of one interval. The rule: let x be the speedup
/// to aim for. It is at most what leaves the consumer without waits (1.25 / the fraction of time
/// that it did not wait), what the CPU budget allows (budget / cores in use), and what the steps
/// with a fixed number of threads and the serial parts of steps allow. Each step then needs x times
/// the threads that were busy in it. A buffer doubles if in one interval it was both empty for its
/// consumer and full for its producers. All buffers shrink in proportion if they exceed the memory
/// budget.
///
/// Thread-safety: a pure function.
std::vector<StageSettings> propose(std::span<const StageSample> steps, const TuningBudget& budget);

/// Applies `propose` over time. It raises the threads immediately, by at most a factor of two. It
/// lowers them only if three intervals in a row propose fewer, to the largest of these proposals.
///
/// Blocked threads use no cores, so the budget does not limit them: many of them help a step that
/// reads from remote storage, and do not help one whose threads wait for each other. So a raise
/// beyond `safe_threads` is on trial: unless the step becomes faster by a good part of the raise in
/// the next interval, the raise is reverted, and not tried again for a while.
///
/// Thread-safety: one thread at a time.
class Tuner {
 public:
  /// The next settings. `keys[i]` identifies step i over calls.
  std::vector<StageSettings> next(std::span<const StageSample> steps,
                                  std::span<const std::uint64_t> keys, const TuningBudget& budget);

 private:
  struct Trial {
    std::size_t threads_before;
    double rate_before;
  };
  struct History {
    std::uint64_t key;
    std::vector<std::size_t> threads{};  // proposed, newest last
    std::optional<Trial> trial{};
    std::size_t max_threads = 0;  // for `intervals_held` more intervals
    int intervals_held = 0;
  };
  History& history(std::uint64_t key);
  static std::size_t damped(History& past, const StageSample& step, std::size_t proposed);
  static std::size_t apply_trial(History& past, const StageSample& step, std::size_t threads);
  std::vector<History> histories_;
};

}  // namespace brigade::data
