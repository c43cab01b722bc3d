#include "brigade/optim/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/base/unknown_name.h"

namespace brigade::optim {
namespace {

/// Throws unless the value of a schedule's field is allowed.
template <class Value>
using Check = void (*)(std::string_view schedule, std::string_view field, const Value& value);

/// A field of a schedule's struct, with its name in a configuration; `check` null: any value.
template <class Options, class Value>
struct Field {
  std::string_view name;
  Value Options::*member;
  Check<Value> check = nullptr;
};
template <class Options, class Value>
Field(std::string_view, Value Options::*, Check<Value> = nullptr) -> Field<Options, Value>;

/// Throws kInvalidArgument, "NAME: FIELD is VALUE and must be ALLOWED."
template <class Value>
void check_field(bool holds, std::string_view name, std::string_view field, const Value& value,
                 std::string_view allowed) {
  if (holds) return;
  throw Error(ErrorCode::kInvalidArgument, "Schedule ", name, ": ", field, " is ", value,
              " and must be ", allowed, ".");
}

/// A rate may be any non-negative number.
void check_rate(std::string_view name, std::string_view field, const double& rate) {
  check_field(rate >= 0 && rate <= std::numeric_limits<double>::max(), name, field, rate,
              "at least 0 and finite");
}

void check_steps(std::string_view name, std::string_view field, const std::int64_t& steps) {
  check_field(steps > 0, name, field, steps, "at least 1");
}

void check_fraction(std::string_view name, std::string_view field, const double& fraction) {
  check_field(fraction >= 0 && fraction <= 1, name, field, fraction, "in [0, 1]");
}

void check_power(std::string_view name, std::string_view field, const double& power) {
  check_field(power > 0 && std::isfinite(power), name, field, power, "above 0 and finite");
}

void check_growth(std::string_view name, std::string_view field, const double& factor) {
  check_field(factor >= 1 && std::isfinite(factor), name, field, factor, "at least 1 and finite");
}

void check_given(std::string_view name, std::string_view field, const SchedulePtr& given) {
  check_argument(given != nullptr, "Schedule ", name, ": ", field,
                 " is missing; give it a schedule, for example ConstantRate{.learning_rate = "
                 "0.1}.schedule().");
}

// Each struct has two functions: its rate at a step, and its fields with their checks.

double rate_at(const ConstantRate& o, std::int64_t) {
  return o.learning_rate;
}
constexpr auto fields_of(const ConstantRate&) {
  return std::make_tuple(Field{"learning_rate", &ConstantRate::learning_rate, check_rate});
}

double rate_at(const StepDecay& o, std::int64_t step) {
  return o.initial_learning_rate * std::pow(o.factor, static_cast<double>(step / o.step_size));
}
constexpr auto fields_of(const StepDecay&) {
  return std::make_tuple(
      Field{"initial_learning_rate", &StepDecay::initial_learning_rate, check_rate},
      Field{"step_size", &StepDecay::step_size, check_steps},
      Field{"factor", &StepDecay::factor, check_rate});
}

/// step / decay_steps, rounded down for a staircase.
template <class Options>
double periods(const Options& o, std::int64_t step) {
  if (o.staircase) return static_cast<double>(step / o.decay_steps);
  return static_cast<double>(step) / static_cast<double>(o.decay_steps);
}

double rate_at(const ExponentialDecay& o, std::int64_t step) {
  return o.initial_learning_rate * std::pow(o.decay_rate, periods(o, step));
}
double rate_at(const InverseTimeDecay& o, std::int64_t step) {
  return o.initial_learning_rate / (1.0 + o.decay_rate * periods(o, step));
}
template <class Options>
requires requires(const Options& o) {
  o.staircase;
}
constexpr auto fields_of(const Options&) {
  return std::make_tuple(
      Field{"initial_learning_rate", &Options::initial_learning_rate, check_rate},
      Field{"decay_steps", &Options::decay_steps, check_steps},
      Field{"decay_rate", &Options::decay_rate, check_rate},
      Field{"staircase", &Options::staircase});
}

double rate_at(const PolynomialDecay& o, std::int64_t step) {
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
constexpr auto fields_of(const PolynomialDecay&) {
  return std::make_tuple(
      Field{"initial_learning_rate", &PolynomialDecay::initial_learning_rate, check_rate},
      Field{"decay_steps", &PolynomialDecay::decay_steps, check_steps},
      Field{"end_learning_rate", &PolynomialDecay::end_learning_rate, check_rate},
      Field{"power", &PolynomialDecay::power, check_power},
      Field{"cycle", &PolynomialDecay::cycle});
}

double rate_at(const PiecewiseConstantDecay& o, std::int64_t step) {
  const auto boundary = std::lower_bound(o.boundaries.begin(), o.boundaries.end(), step);
  return o.values[static_cast<std::size_t>(boundary - o.boundaries.begin())];
}
constexpr auto fields_of(const PiecewiseConstantDecay&) {
  return std::make_tuple(Field{"boundaries", &PiecewiseConstantDecay::boundaries},
                         Field{"values", &PiecewiseConstantDecay::values});
}
void check_values(const PiecewiseConstantDecay& o) {
  const std::size_t boundaries = o.boundaries.size();
  check_field(o.values.size() == boundaries + 1, o.kName, "the number of values", o.values.size(),
              base::str_cat("one more than that of boundaries, ", boundaries + 1));
  const auto falls =
      std::adjacent_find(o.boundaries.begin(), o.boundaries.end(), std::greater_equal());
  check_field(falls == o.boundaries.end(), o.kName, "boundaries", base::join(o.boundaries, ", "),
              "ascending");
  for (const double value : o.values) check_rate(o.kName, "a value", value);
}

double cosine_from_one_to_zero(double fraction) {
  return 0.5 * (1.0 + std::cos(std::numbers::pi * fraction));
}

double rate_at(const CosineDecay& o, std::int64_t step) {
  const double fraction =
      static_cast<double>(std::min(step, o.decay_steps)) / static_cast<double>(o.decay_steps);
  return o.initial_learning_rate * ((1.0 - o.alpha) * cosine_from_one_to_zero(fraction) + o.alpha);
}
constexpr auto fields_of(const CosineDecay&) {
  return std::make_tuple(
      Field{"initial_learning_rate", &CosineDecay::initial_learning_rate, check_rate},
      Field{"decay_steps", &CosineDecay::decay_steps, check_steps},
      Field{"alpha", &CosineDecay::alpha, check_fraction});
}

/// The position of a step: the index of its decay, and how far it is in it.
struct DecayPosition {
  double restarts;
  double fraction;
};

DecayPosition position_of(const CosineDecayRestarts& o, std::int64_t step) {
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

double rate_at(const CosineDecayRestarts& o, std::int64_t step) {
  const DecayPosition position = position_of(o, step);
  const double height = std::pow(o.m_mul, position.restarts);
  return o.initial_learning_rate *
         ((1.0 - o.alpha) * height * cosine_from_one_to_zero(position.fraction) + o.alpha);
}
constexpr auto fields_of(const CosineDecayRestarts&) {
  return std::make_tuple(
      Field{"initial_learning_rate", &CosineDecayRestarts::initial_learning_rate, check_rate},
      Field{"first_decay_steps", &CosineDecayRestarts::first_decay_steps, check_steps},
      Field{"t_mul", &CosineDecayRestarts::t_mul, check_growth},
      Field{"m_mul", &CosineDecayRestarts::m_mul, check_rate},
      Field{"alpha", &CosineDecayRestarts::alpha, check_fraction});
}

double rate_at(const WarmUp& o, std::int64_t step) {
  if (step >= o.warmup_steps) return (*o.then)(step - o.warmup_steps);
  const double fraction = static_cast<double>(step) / static_cast<double>(o.warmup_steps);
  return ((*o.then)(0) - o.initial_learning_rate) * fraction + o.initial_learning_rate;
}
constexpr auto fields_of(const WarmUp&) {
  return std::make_tuple(Field{"initial_learning_rate", &WarmUp::initial_learning_rate, check_rate},
                         Field{"warmup_steps", &WarmUp::warmup_steps, check_steps},
                         Field{"then", &WarmUp::then, check_given});
}

double rate_at(const ScaledWithGlobalBatch& o, std::int64_t step) {
  return (*o.schedule_to_scale)(step) *
         (static_cast<double>(o.global_batch) / static_cast<double>(o.base_batch));
}
constexpr auto fields_of(const ScaledWithGlobalBatch&) {
  return std::make_tuple(Field{"schedule", &ScaledWithGlobalBatch::schedule_to_scale, check_given},
                         Field{"base_batch", &ScaledWithGlobalBatch::base_batch, check_steps},
                         Field{"global_batch", &ScaledWithGlobalBatch::global_batch, check_steps});
}

template <class Options>
void check_values(const Options& o) {
  const auto check = [&](const auto& field) {
    if (field.check != nullptr) field.check(o.kName, field.name, o.*field.member);
  };
  std::apply([&](const auto&... field) { (check(field), ...); }, fields_of(o));
}

template <class Value>
io::StateTree to_tree(const Value& value) {
  if constexpr (std::is_same_v<Value, SchedulePtr>) {
    return value->config();
  } else if constexpr (std::is_arithmetic_v<Value>) {
    return value;
  } else {
    io::StateTree list = io::StateTree::list();
    for (const auto& element : value) list.push_back(element);
    return list;
  }
}

template <class Value>
Value from_tree(const io::StateTree& tree) {
  if constexpr (std::is_same_v<Value, bool>) {
    return tree.as_bool();
  } else if constexpr (std::is_same_v<Value, SchedulePtr>) {
    return make_schedule(tree);
  } else if constexpr (std::is_same_v<Value, double>) {
    return tree.as_double();
  } else if constexpr (std::is_same_v<Value, std::int64_t>) {
    return tree.as_int64();
  } else {
    Value values;
    for (const io::StateTree& element : tree.as_list())
      values.push_back(from_tree<typename Value::value_type>(element));
    return values;
  }
}

template <class Options>
class ScheduleOf final : public Schedule {
 public:
  explicit ScheduleOf(Options options) : options_(std::move(options)) { check_values(options_); }
  std::string_view name() const override { return Options::kName; }
  double operator()(std::int64_t step) const override {
    if (step < 0) {
      throw Error(ErrorCode::kInvalidArgument, "Schedule ", name(), ": the step is ", step,
                  " and must be at least 0.");
    }
    return rate_at(options_, step);
  }
  io::StateTree config() const override {
    io::StateTree tree = io::StateTree::dict();
    tree["name"] = name();
    std::apply(
        [&](const auto&... field) { ((tree[field.name] = to_tree(options_.*field.member)), ...); },
        fields_of(options_));
    return tree;
  }

 private:
  const Options options_;
};

template <class Options>
SchedulePtr schedule_from(const io::StateTree& config) {
  Options options;
  std::apply(
      [&](const auto&... field) {
        ((options.*field.member =
              from_tree<std::remove_reference_t<decltype(options.*field.member)>>(
                  config.at(field.name))),
         ...);
      },
      fields_of(options));
  return options.schedule();
}

using From = SchedulePtr (*)(const io::StateTree&);

template <class... Options>
constexpr std::array<std::pair<std::string_view, From>, sizeof...(Options)> table_of() {
  return {{{Options::kName, &schedule_from<Options>}...}};
}

constexpr auto kTable = table_of<ConstantRate, StepDecay, ExponentialDecay, InverseTimeDecay,
                                 PolynomialDecay, PiecewiseConstantDecay, CosineDecay,
                                 CosineDecayRestarts, WarmUp, ScaledWithGlobalBatch>();

}  // namespace

SchedulePtr make_schedule(const io::StateTree& config) {
  const std::string& name = config.as_string("name");
  const auto* found = std::find_if(kTable.begin(), kTable.end(),
                                   [&](const auto& row) { return row.first == name; });
  if (found != kTable.end()) return found->second(config);
  std::vector<std::string> names;
  for (const auto& [known, from] : kTable) names.emplace_back(known);
  throw base::unknown_name("schedule", name, "Schedules", names);
}

SchedulePtr ConstantRate::schedule() const {
  return std::make_shared<ScheduleOf<ConstantRate>>(*this);
}
SchedulePtr StepDecay::schedule() const {
  return std::make_shared<ScheduleOf<StepDecay>>(*this);
}
SchedulePtr ExponentialDecay::schedule() const {
  return std::make_shared<ScheduleOf<ExponentialDecay>>(*this);
}
SchedulePtr InverseTimeDecay::schedule() const {
  return std::make_shared<ScheduleOf<InverseTimeDecay>>(*this);
}
SchedulePtr PolynomialDecay::schedule() const {
  return std::make_shared<ScheduleOf<PolynomialDecay>>(*this);
}
SchedulePtr PiecewiseConstantDecay::schedule() const {
  return std::make_shared<ScheduleOf<PiecewiseConstantDecay>>(*this);
}
SchedulePtr CosineDecay::schedule() const {
  return std::make_shared<ScheduleOf<CosineDecay>>(*this);
}
SchedulePtr CosineDecayRestarts::schedule() const {
  return std::make_shared<ScheduleOf<CosineDecayRestarts>>(*this);
}
SchedulePtr WarmUp::schedule() const {
  return std::make_shared<ScheduleOf<WarmUp>>(*this);
}
SchedulePtr ScaledWithGlobalBatch::schedule() const {
  return std::make_shared<ScheduleOf<ScaledWithGlobalBatch>>(*this);
}

SchedulePtr scaled_with_global_batch(SchedulePtr schedule, std::int64_t base_batch,
                                     std::int64_t global_batch) {
  return ScaledWithGlobalBatch{.schedule_to_scale = std::move(schedule),
                               .base_batch = base_batch,
                               .global_batch = global_batch}
      .schedule();
}

}  // namespace brigade::optim
