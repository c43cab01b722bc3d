#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/optim/schedule.h"

/// Creates schedules from option structs; for this folder's sources only.
namespace brigade::optim::internal {

/// A field of an option struct, with its name in a configuration.
template <class Options, class Value>
struct Field {
  std::string_view name;
  Value Options::*member;
};

template <class Options, class Value>
constexpr Field<Options, Value> field(std::string_view name, Value Options::*member) {
  return {name, member};
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

/// A schedule with the given option struct. The struct's namespace must provide `rate_at(options,
/// step)` and `fields_of(options)`, a tuple of its fields.
template <class Options>
class ScheduleOf final : public Schedule {
 public:
  explicit ScheduleOf(Options options) : options_(std::move(options)) {}
  std::string_view name() const override { return Options::kName; }
  double operator()(std::int64_t step) const override {
    if (step < 0) {
      throw Error(ErrorCode::kInvalidArgument, base::str_cat("Schedule ", name(), ": the step is ",
                                                             step, " and must be at least 0."));
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
Options options_from(const io::StateTree& config) {
  Options options;
  std::apply(
      [&](const auto&... field) {
        ((options.*field.member =
              from_tree<std::remove_reference_t<decltype(options.*field.member)>>(
                  config.at(field.name))),
         ...);
      },
      fields_of(options));
  return options;
}

/// Throws kInvalidArgument, "NAME: FIELD is VALUE and must be ALLOWED."
template <class Value>
void check_field(bool holds, std::string_view name, std::string_view field, const Value& value,
                 std::string_view allowed) {
  if (holds) return;
  throw Error(ErrorCode::kInvalidArgument, base::str_cat("Schedule ", name, ": ", field, " is ",
                                                         value, " and must be ", allowed, "."));
}

/// A rate may be any non-negative number.
inline void check_rate(std::string_view name, std::string_view field, double rate) {
  check_field(rate >= 0 && rate <= std::numeric_limits<double>::max(), name, field, rate,
              "at least 0 and finite");
}

inline void check_steps(std::string_view name, std::string_view field, std::int64_t steps) {
  check_field(steps > 0, name, field, steps, "at least 1");
}

}  // namespace brigade::optim::internal
