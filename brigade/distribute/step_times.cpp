#include "brigade/distribute/step_times.h"

#include <algorithm>
#include <cmath>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::distribute {

namespace {

using comm::StepPhase;
using SteadyClock = std::chrono::steady_clock;

// If two replicas differ by more than this, each is listed.
constexpr double kNotableDifference = 0.1;

bool differ_notably(std::span<const StepTimes> replicas) {
  return std::any_of(comm::kStepPhases.begin(), comm::kStepPhases.end(), [&](StepPhase phase) {
    const auto [least, most] = std::minmax_element(
        replicas.begin(), replicas.end(),
        [&](const auto& a, const auto& b) { return a.fraction(phase) < b.fraction(phase); });
    return most->fraction(phase) - least->fraction(phase) > kNotableDifference;
  });
}

StepTimes sum_of(std::span<const StepTimes> replicas) {
  StepTimes sum;
  for (const StepTimes& replica : replicas) {
    for (std::size_t i = 0; i < sum.phases.size(); ++i) sum.phases[i] += replica.phases[i];
  }
  return sum;
}

std::string fractions_of(const StepTimes& times) {
  std::string text;
  for (const StepPhase phase : comm::kStepPhases) {
    text += base::str_cat(text.empty() ? "" : ", ", phase, " ",
                          std::lround(100.0 * times.fraction(phase)), " %");
  }
  return text;
}

}  // namespace

std::chrono::nanoseconds StepTimes::total() const {
  std::chrono::nanoseconds sum{};
  for (const std::chrono::nanoseconds phase : phases) sum += phase;
  return sum;
}

double StepTimes::fraction(StepPhase phase) const {
  const auto whole = static_cast<double>(total().count());
  return whole > 0.0 ? static_cast<double>(spent(phase).count()) / whole : 0.0;
}

std::string describe_step_breakdown(std::span<const StepTimes> replicas) {
  if (sum_of(replicas).total().count() == 0) return "";
  std::string text = "step breakdown  ";
  if (!differ_notably(replicas)) return text + fractions_of(sum_of(replicas));
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    text += base::str_cat(i == 0 ? "" : "; ", "replica ", i, ": ", fractions_of(replicas[i]));
  }
  return text;
}

StepMeter::StepMeter(int replicas)
    : clocks_(static_cast<std::size_t>(replicas)),
      sums_(static_cast<std::size_t>(replicas)),
      devices_(static_cast<std::size_t>(replicas)) {
  check_argument(replicas >= 1, "A step has at least one replica.");
}

void StepMeter::measure(StepMeasuring measuring) {
  on_.store(measuring == StepMeasuring::kOn, std::memory_order_relaxed);
}

void StepMeter::use_stream(int replica, c10::Stream stream) {
  devices_[static_cast<std::size_t>(replica)] = std::make_unique<DeviceClock>(stream);
}

std::vector<StepTimes> StepMeter::times() {
  std::chrono::nanoseconds longest{};
  for (std::size_t replica = 0; replica < sums_.size(); ++replica) {
    if (devices_[replica]) add(replica, devices_[replica]->take_all());
    longest = std::max(longest, sums_[replica].total());
  }
  std::vector<StepTimes> times = sums_;
  for (StepTimes& each : times)  // on CPUs equal already
    each.phases[static_cast<std::size_t>(StepPhase::kWait)] += longest - each.total();
  return times;
}

void StepMeter::add(std::size_t replica, const comm::PerPhase<std::chrono::nanoseconds>& times) {
  for (std::size_t phase = 0; phase < times.size(); ++phase)
    sums_[replica].phases[phase] += times[phase];
}

void StepMeter::reset() {
  input_.store(0, std::memory_order_relaxed);
  sums_.assign(sums_.size(), {});
  for (const auto& device : devices_) {
    if (device) device->clear();
  }
}

void StepMeter::begin_step() {
  measures_ = is_on();
  if (!measures_) return;
  step_input_ = std::chrono::nanoseconds(input_.exchange(0, std::memory_order_relaxed));
  const SteadyClock::time_point now = SteadyClock::now();
  // Replica 0 is the caller, which starts the others; they wait to be woken.
  for (std::size_t replica = 0; replica < clocks_.size(); ++replica)
    clocks_[replica].start(replica == 0 ? StepPhase::kCompute : StepPhase::kWait, now);
  for (std::size_t replica = 0; replica < devices_.size(); ++replica) {
    if (!devices_[replica]) continue;
    add(replica, devices_[replica]->take());  // so that few points are kept
    devices_[replica]->begin_step(step_input_);
  }
}

void StepMeter::finish_step() {
  if (!measures_) return;
  const SteadyClock::time_point now = SteadyClock::now();
  for (std::size_t replica = 0; replica < clocks_.size(); ++replica) {
    clocks_[replica].stop(now);
    StepTimes& sum = sums_[replica];
    ++sum.steps;
    if (devices_[replica]) {
      devices_[replica]->keep_step();
      continue;
    }
    add(replica, clocks_[replica].times());
    sum.phases[static_cast<std::size_t>(StepPhase::kInput)] += step_input_;
  }
}

StepMeter::ReplicaScope::ReplicaScope(StepMeter& meter, int replica)
    : clock_(meter.clock(replica)),
      device_(meter.device(replica)),
      has_peers_(meter.clocks_.size() > 1) {
  if (clock_ && replica > 0) clock_->enter(StepPhase::kCompute);
}

void StepMeter::ReplicaScope::has_input() {
  if (!device_) return;
  clock_->listen(device_);
  device_->entered(StepPhase::kCompute);
}

StepMeter::ReplicaScope::~ReplicaScope() {
  if (device_) {
    clock_->listen(nullptr);
    device_->end_step();
  }
  if (clock_ && has_peers_) clock_->enter(StepPhase::kWait);
}

}  // namespace brigade::distribute
