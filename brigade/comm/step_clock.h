#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace brigade::comm {

/// What a replica spends a step on.
enum class StepPhase : std::uint8_t {
  kInput,          ///< the next batch was not there yet
  kCompute,        ///< the step function: forward, backward, and whatever else it does
  kWait,           ///< peers had not come to a barrier, or had not finished
  kCommunication,  ///< moving and adding up values of several replicas
  kUpdate,         ///< the optimizer's rule
};

inline constexpr std::array kStepPhases{StepPhase::kInput, StepPhase::kCompute, StepPhase::kWait,
                                        StepPhase::kCommunication, StepPhase::kUpdate};

/// "input", "compute", "wait", "communication" or "update".
std::string_view to_string(StepPhase phase);

/// One value a phase, in the order of `kStepPhases`.
template <class T>
using PerPhase = std::array<T, kStepPhases.size()>;

/// Measures on what one replica's thread spends a step. At every moment between `start` and `stop`
/// one phase counts, so the phases' times add up to the whole. Entering a phase reads the clock
/// once, and that is all it costs.
///
/// It is the time of the replica's thread on the host: work that a GPU still has to do counts where
/// that thread waits for it.
///
/// Thread-safety: the replica's thread between `start` and `stop`, its caller's around them.
class alignas(64) StepClock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Forgets the last step; from `now` on `first` counts.
  void start(StepPhase first, Time now) {
    times_ = {};
    phase_ = first;
    since_ = now;
  }
  /// From `now` on `phase` counts. Returns the one that did before.
  StepPhase enter(StepPhase phase, Time now = std::chrono::steady_clock::now()) {
    stop(now);
    const StepPhase before = phase_;
    phase_ = phase;
    return before;
  }
  /// Counts the open phase up to `now`.
  void stop(Time now) {
    times_[static_cast<std::size_t>(phase_)] += now - since_;
    since_ = now;
  }

  /// Of the step that is open, or was the last.
  const PerPhase<std::chrono::nanoseconds>& times() const { return times_; }

 private:
  PerPhase<std::chrono::nanoseconds> times_{};
  StepPhase phase_ = StepPhase::kCompute;
  Time since_;
};

/// While it lives, `phase` counts on `clock`; then again what did before. Without a clock (nothing
/// is measured) it does nothing.
class PhaseScope {
 public:
  PhaseScope(StepClock* clock, StepPhase phase)
      : clock_(clock), before_(clock ? clock->enter(phase) : phase) {}
  ~PhaseScope() {
    if (clock_) clock_->enter(before_);
  }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  StepClock* const clock_;
  const StepPhase before_;
};

}  // namespace brigade::comm
