#include "brigade/distribute/step_meter.h"

#include "brigade/base/error.h"

namespace brigade::distribute {

namespace {

using comm::StepPhase;
using SteadyClock = std::chrono::steady_clock;

}  // namespace

StepMeter::StepMeter(int replicas)
    : clocks_(static_cast<std::size_t>(replicas)), sums_(static_cast<std::size_t>(replicas)) {
  check_argument(replicas >= 1, "A step has at least one replica.");
}

void StepMeter::measure(StepMeasuring measuring) {
  on_.store(measuring == StepMeasuring::kOn, std::memory_order_relaxed);
}

void StepMeter::reset() {
  input_.store(0, std::memory_order_relaxed);
  sums_.assign(sums_.size(), {});
}

void StepMeter::begin_step() {
  measures_ = is_on();
  if (!measures_) return;
  step_input_ = std::chrono::nanoseconds(input_.exchange(0, std::memory_order_relaxed));
  const SteadyClock::time_point now = SteadyClock::now();
  // Replica 0 is the caller, which starts the others; they wait to be woken.
  for (std::size_t replica = 0; replica < clocks_.size(); ++replica)
    clocks_[replica].start(replica == 0 ? StepPhase::kCompute : StepPhase::kWait, now);
}

void StepMeter::finish_step() {
  if (!measures_) return;
  const SteadyClock::time_point now = SteadyClock::now();
  for (std::size_t replica = 0; replica < clocks_.size(); ++replica) {
    clocks_[replica].stop(now);
    StepTimes& sum = sums_[replica];
    ++sum.steps;
    for (std::size_t phase = 0; phase < sum.phases.size(); ++phase)
      sum.phases[phase] += clocks_[replica].times()[phase];
    sum.phases[static_cast<std::size_t>(StepPhase::kInput)] += step_input_;
  }
}

StepMeter::ReplicaScope::ReplicaScope(StepMeter& meter, int replica)
    : clock_(meter.clock(replica)), has_peers_(meter.clocks_.size() > 1) {
  if (clock_ && replica > 0) clock_->enter(StepPhase::kCompute);
}

StepMeter::ReplicaScope::~ReplicaScope() {
  if (clock_ && has_peers_) clock_->enter(StepPhase::kWait);
}

}  // namespace brigade::distribute
