#include "brigade/optim/decay.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "brigade/optim/schedule_of.h"

namespace brigade::optim {

using internal::check_field;
using internal::check_rate;
using internal::check_steps;
using internal::field;
using internal::options_from;
using internal::ScheduleOf;

// rate_at and fields_of are found by argument-dependent lookup, which does not search an unnamed
// namespace.

template <class Options>
static double fraction(const Options& o, std::int64_t step) {
  if (o.staircase) return static_cast<double>(step / o.decay_steps);
  return static_cast<double>(step) / static_cast<double>(o.decay_steps);
}

static double rate_at(const ConstantRate& o, std::int64_t) {
  return o.learning_rate;
}

static constexpr auto fields_of(const ConstantRate&) {
  return std::make_tuple(field("learning_rate", &ConstantRate::learning_rate));
}

SchedulePtr ConstantRate::schedule() const {
  check_rate(kName, "learning_rate", learning_rate);
  return std::make_shared<ScheduleOf<ConstantRate>>(*this);
}

SchedulePtr ConstantRate::from(const io::StateTree& config) {
  return options_from<ConstantRate>(config).schedule();
}

static double rate_at(const StepDecay& o, std::int64_t step) {
  return o.initial_learning_rate * std::pow(o.factor, static_cast<double>(step / o.step_size));
}

static constexpr auto fields_of(const StepDecay&) {
  return std::make_tuple(field("initial_learning_rate", &StepDecay::initial_learning_rate),
                         field("step_size", &StepDecay::step_size),
                         field("factor", &StepDecay::factor));
}

SchedulePtr StepDecay::schedule() const {
  check_rate(kName, "initial_learning_rate", initial_learning_rate);
  check_steps(kName, "step_size", step_size);
  check_rate(kName, "factor", factor);
  return std::make_shared<ScheduleOf<StepDecay>>(*this);
}

SchedulePtr StepDecay::from(const io::StateTree& config) {
  return options_from<StepDecay>(config).schedule();
}

static double rate_at(const ExponentialDecay& o, std::int64_t step) {
  return o.initial_learning_rate * std::pow(o.decay_rate, fraction(o, step));
}

static constexpr auto fields_of(const ExponentialDecay&) {
  return std::make_tuple(field("initial_learning_rate", &ExponentialDecay::initial_learning_rate),
                         field("decay_steps", &ExponentialDecay::decay_steps),
                         field("decay_rate", &ExponentialDecay::decay_rate),
                         field("staircase", &ExponentialDecay::staircase));
}

SchedulePtr ExponentialDecay::schedule() const {
  check_rate(kName, "initial_learning_rate", initial_learning_rate);
  check_steps(kName, "decay_steps", decay_steps);
  check_rate(kName, "decay_rate", decay_rate);
  return std::make_shared<ScheduleOf<ExponentialDecay>>(*this);
}

SchedulePtr ExponentialDecay::from(const io::StateTree& config) {
  return options_from<ExponentialDecay>(config).schedule();
}

static double rate_at(const InverseTimeDecay& o, std::int64_t step) {
  return o.initial_learning_rate / (1.0 + o.decay_rate * fraction(o, step));
}

static constexpr auto fields_of(const InverseTimeDecay&) {
  return std::make_tuple(field("initial_learning_rate", &InverseTimeDecay::initial_learning_rate),
                         field("decay_steps", &InverseTimeDecay::decay_steps),
                         field("decay_rate", &InverseTimeDecay::decay_rate),
                         field("staircase", &InverseTimeDecay::staircase));
}

SchedulePtr InverseTimeDecay::schedule() const {
  check_rate(kName, "initial_learning_rate", initial_learning_rate);
  check_steps(kName, "decay_steps", decay_steps);
  check_rate(kName, "decay_rate", decay_rate);
  return std::make_shared<ScheduleOf<InverseTimeDecay>>(*this);
}

SchedulePtr InverseTimeDecay::from(const io::StateTree& config) {
  return options_from<InverseTimeDecay>(config).schedule();
}

static double rate_at(const PolynomialDecay& o, std::int64_t step) {
  std::int64_t steps = o.decay_steps;
  if (o.cycle) {
    const std::int64_t begun = step == 0 ? 1 : (step - 1) / steps + 1;
    steps *= begun;
  } else {
    step = std::min(step, steps);
  }
  const double left = 1.0 - static_cast<double>(step) / static_cast<double>(steps);
  return (o.initial_learning_rate - o.end_learning_rate) * std::pow(left, o.power) +
         o.end_learning_rate;
}

static constexpr auto fields_of(const PolynomialDecay&) {
  return std::make_tuple(field("initial_learning_rate", &PolynomialDecay::initial_learning_rate),
                         field("decay_steps", &PolynomialDecay::decay_steps),
                         field("end_learning_rate", &PolynomialDecay::end_learning_rate),
                         field("power", &PolynomialDecay::power),
                         field("cycle", &PolynomialDecay::cycle));
}

SchedulePtr PolynomialDecay::schedule() const {
  check_rate(kName, "initial_learning_rate", initial_learning_rate);
  check_steps(kName, "decay_steps", decay_steps);
  check_rate(kName, "end_learning_rate", end_learning_rate);
  check_field(power > 0 && std::isfinite(power), kName, "power", power, "above 0 and finite");
  return std::make_shared<ScheduleOf<PolynomialDecay>>(*this);
}

SchedulePtr PolynomialDecay::from(const io::StateTree& config) {
  return options_from<PolynomialDecay>(config).schedule();
}

static double rate_at(const PiecewiseConstantDecay& o, std::int64_t step) {
  const auto boundary = std::lower_bound(o.boundaries.begin(), o.boundaries.end(), step);
  return o.values[static_cast<std::size_t>(boundary - o.boundaries.begin())];
}

static constexpr auto fields_of(const PiecewiseConstantDecay&) {
  return std::make_tuple(field("boundaries", &PiecewiseConstantDecay::boundaries),
                         field("values", &PiecewiseConstantDecay::values));
}

SchedulePtr PiecewiseConstantDecay::schedule() const {
  check_field(values.size() == boundaries.size() + 1, kName, "the number of values", values.size(),
              base::str_cat("one more than that of boundaries, ", boundaries.size() + 1));
  const auto falls = std::adjacent_find(boundaries.begin(), boundaries.end(), std::greater_equal());
  check_field(falls == boundaries.end(), kName, "boundaries", base::join(boundaries, ", "),
              "ascending");
  for (const double value : values) check_rate(kName, "a value", value);
  return std::make_shared<ScheduleOf<PiecewiseConstantDecay>>(*this);
}

SchedulePtr PiecewiseConstantDecay::from(const io::StateTree& config) {
  return options_from<PiecewiseConstantDecay>(config).schedule();
}

}  // namespace brigade::optim
