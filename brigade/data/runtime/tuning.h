#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace brigade::data {

enum class Autotune {
  kOn,   ///< Steps given `kAutotune` are adjusted while they run.
  kOff,  ///< They keep what they start with.
};

/// What the adjusting of `kAutotune` steps may take. The elements never depend on it.
///
/// TensorFlow counterpart: tf.data.Options().autotune.
struct Tuning {
  /// Unset: on.
  std::optional<Autotune> autotune{};
  /// Cores' worth of time for all threads of the walk together. Unset: the cores this process may
  /// use. Give what the replicas leave, where the cores that they need are known.
  std::optional<double> cpu_budget{};
  /// Bytes that elements waiting in the walk's buffers may take, as far as `ByteSize` knows them.
  /// Unset: an eighth of the machine's memory.
  std::optional<std::uint64_t> memory_budget{};
};

/// The numbers of a pipelined step that may change while it runs.
struct StageSettings {
  std::size_t threads = 1;
  std::size_t capacity = 1;  ///< Chunks under way or ready.
  friend bool operator==(const StageSettings&, const StageSettings&) = default;
};

/// What may be changed of a step, and how far.
struct StageLimits {
  std::size_t max_threads = 0;   ///< 0: the threads stay as they are.
  std::size_t max_capacity = 0;  ///< 0: the capacity stays as it is.
  /// More threads than these are given on trial only. 0: up to `max_threads` none is.
  std::size_t safe_threads = 0;
};

/// What a pipelined step did in an interval, as shares of that interval: 1 is one thread, or one
/// core, all the time.
struct StageSample {
  StageSettings settings{};
  StageLimits limits{};
  double busy = 0;    ///< Its workers on elements: on a core, or blocked by something of their own.
  double cpu = 0;     ///< Its workers on a core.
  double serial = 0;  ///< One of them in the part that they do in turns: taking from the input.
  double waited_for = 0;  ///< Somebody waiting for a result of it.
  double full = 0;        ///< One of its workers waiting for room.
  double chunk_bytes = 0;
  double rate = 0;              ///< Elements a second that left it.
  bool feeds_consumer = false;  ///< No pipelined step stands between it and the consumer.
};

struct TuningBudget {
  double cpu = 1;
  double memory = 1e9;
};

/// The settings that suit the steps, judged by one interval. The rule: let x be how much faster the
/// walk could run and should: no more than would leave the consumer without waits (1.25 / the share
/// of time that it did not wait), than the CPU budget allows (budget / cores in use), and than the
/// steps allow whose threads are fixed or take turns. Then each step needs x times the threads that
/// were busy in it. A buffer that was empty for its consumer and full for its producers in one
/// interval doubles; all buffers shrink in proportion where they hold more than the memory budget.
///
/// Thread-safety: a pure function.
std::vector<StageSettings> propose(std::span<const StageSample> steps, const TuningBudget& budget);

/// `propose` over time: raises at once, by at most a factor of two, and lowers threads only if
/// three intervals in a row ask for it, to the most that they asked for.
///
/// Threads that are blocked cost no cores, so no budget bounds them: many of them help a step that
/// reads from far away, and none helps one whose threads wait for each other. So beyond
/// `safe_threads` a raise is on trial: if the step does not give elements faster by a good part of
/// it in the next interval, it is taken back, and not tried again for a while.
///
/// Thread-safety: one thread at a time.
class Tuner {
 public:
  /// The next settings. `keys` tells which steps of earlier calls these are.
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
  static std::size_t tried(History& past, const StageSample& step, std::size_t threads);
  std::vector<History> histories_;
};

}  // namespace brigade::data
