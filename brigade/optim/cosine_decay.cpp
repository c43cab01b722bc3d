#include "brigade/optim/cosine_decay.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "brigade/optim/schedule_of.h"

namespace brigade::optim {

using internal::check_field;
using internal::check_rate;
using internal::check_steps;
using internal::field;
using internal::options_from;
using internal::ScheduleOf;

static double cosine_from_one_to_zero(double fraction) {
  return 0.5 * (1.0 + std::cos(std::numbers::pi * fraction));
}

static void check_alpha(std::string_view name, double alpha) {
  check_field(alpha >= 0 && alpha <= 1, name, "alpha", alpha, "in [0, 1]");
}

static double rate_at(const CosineDecay& o, std::int64_t step) {
  const double fraction =
      static_cast<double>(std::min(step, o.decay_steps)) / static_cast<double>(o.decay_steps);
  return o.initial_learning_rate * ((1.0 - o.alpha) * cosine_from_one_to_zero(fraction) + o.alpha);
}

static constexpr auto fields_of(const CosineDecay&) {
  return std::make_tuple(field("initial_learning_rate", &CosineDecay::initial_learning_rate),
                         field("decay_steps", &CosineDecay::decay_steps),
                         field("alpha", &CosineDecay::alpha));
}

SchedulePtr CosineDecay::schedule() const {
  check_rate(kName, "initial_learning_rate", initial_learning_rate);
  check_steps(kName, "decay_steps", decay_steps);
  check_alpha(kName, alpha);
  return std::make_shared<ScheduleOf<CosineDecay>>(*this);
}

SchedulePtr CosineDecay::from(const io::StateTree& config) {
  return options_from<CosineDecay>(config).schedule();
}

namespace {

/// The position of a step: the index of its decay, and how far it is in it.
struct Position {
  double restarts;
  double fraction;
};

Position position_of(const CosineDecayRestarts& o, std::int64_t step) {
  if (o.t_mul == 1.0) {
    const std::int64_t restarts = step / o.first_decay_steps;
    const std::int64_t into = step - restarts * o.first_decay_steps;
    return {static_cast<double>(restarts),
            static_cast<double>(into) / static_cast<double>(o.first_decay_steps)};
  }
  auto left = static_cast<double>(step);
  auto length = static_cast<double>(o.first_decay_steps);
  double restarts = 0;
  for (; left >= length; ++restarts) {
    left -= length;
    length *= o.t_mul;
  }
  return {restarts, left / length};
}

}  // namespace

static double rate_at(const CosineDecayRestarts& o, std::int64_t step) {
  const Position position = position_of(o, step);
  const double height = std::pow(o.m_mul, position.restarts);
  return o.initial_learning_rate *
         ((1.0 - o.alpha) * height * cosine_from_one_to_zero(position.fraction) + o.alpha);
}

static constexpr auto fields_of(const CosineDecayRestarts&) {
  return std::make_tuple(
      field("initial_learning_rate", &CosineDecayRestarts::initial_learning_rate),
      field("first_decay_steps", &CosineDecayRestarts::first_decay_steps),
      field("t_mul", &CosineDecayRestarts::t_mul), field("m_mul", &CosineDecayRestarts::m_mul),
      field("alpha", &CosineDecayRestarts::alpha));
}

SchedulePtr CosineDecayRestarts::schedule() const {
  check_rate(kName, "initial_learning_rate", initial_learning_rate);
  check_steps(kName, "first_decay_steps", first_decay_steps);
  check_field(t_mul >= 1 && std::isfinite(t_mul), kName, "t_mul", t_mul, "at least 1 and finite");
  check_rate(kName, "m_mul", m_mul);
  check_alpha(kName, alpha);
  return std::make_shared<ScheduleOf<CosineDecayRestarts>>(*this);
}

SchedulePtr CosineDecayRestarts::from(const io::StateTree& config) {
  return options_from<CosineDecayRestarts>(config).schedule();
}

}  // namespace brigade::optim
