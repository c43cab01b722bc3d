#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace brigade::comm {

/// What a replica spends a step on.
enum class StepPhase : std::uint8_t {
  kInput,          ///< waiting for the next batch
  kCompute,        ///< the step function: forward, backward, and everything else it does
  kWait,           ///< waiting at a barrier, or for peers to finish
  kCommunication,  ///< moving and adding values of several replicas
  kUpdate,         ///< the optimizer's update rule
};

inline constexpr std::array kStepPhases{StepPhase::kInput, StepPhase::kCompute, StepPhase::kWait,
                                        StepPhase::kCommunication, StepPhase::kUpdate};

/// "input", "compute", "wait", "communication" or "update".
constexpr std::string_view to_string(StepPhase phase) {
  constexpr std::array<std::string_view, kStepPhases.size()> kNames = {"input", "compute", "wait",
                                                                       "communication", "update"};
  return kNames[static_cast<std::size_t>(phase)];
}

/// One value per phase, in the order of `kStepPhases`.
template <class T>
using PerPhase = std::array<T, kStepPhases.size()>;

/// Notified of each phase that a StepClock enters, on the thread that enters it.
class PhaseListener {
 public:
  virtual ~PhaseListener() = default;
  virtual void entered(StepPhase phase) = 0;
};

/// Measures how long each phase of a step takes on one replica's thread. At every moment between
/// `start` and `stop` exactly one phase is active, so the phases' times add up to the whole.
/// Entering a phase costs one reading of the clock.
///
/// It measures the replica's thread on the host: GPU work counts in the phase in which that thread
/// waits for it. A listener can measure the GPU.
///
/// Thread-safety: the replica's thread between `start` and `stop`, the caller's outside.
class alignas(64) StepClock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Resets all times and starts phase `first` at `now`.
  void start(StepPhase first, Time now) {
    times_ = {};
    phase_ = first;
    since_ = now;
  }
  /// Switches to `phase` at `now`. Returns the previous phase.
  StepPhase enter(StepPhase phase, Time now = std::chrono::steady_clock::now()) {
    stop(now);
    const StepPhase before = phase_;
    phase_ = phase;
    if (listener_) listener_->entered(phase);
    return before;
  }
  /// Adds the time up to `now` to the current phase.
  void stop(Time now) {
    times_[static_cast<std::size_t>(phase_)] += now - since_;
    since_ = now;
  }

  /// Null: no more. It must outlive what is entered.
  void listen(PhaseListener* listener) { listener_ = listener; }

  /// The times of the current step, or of the last one.
  const PerPhase<std::chrono::nanoseconds>& times() const { return times_; }

 private:
  PerPhase<std::chrono::nanoseconds> times_{};
  StepPhase phase_ = StepPhase::kCompute;
  Time since_;
  PhaseListener* listener_ = nullptr;
};

/// Switches `clock` to `phase` within a scope, and back to the previous phase at its end. With a
/// null clock it does nothing.
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
