#include "apps/brigade/interval_flag.h"

#include <CLI/CLI.hpp>
#include <charconv>

#include "apps/brigade/exit_code.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::command {
namespace {

constexpr double kMostSeconds = 1e9;
constexpr std::int64_t kMostSteps = std::int64_t{1} << 31;

// The number in front of `unit`, if `text` ends with it.
std::optional<std::string_view> before(std::string_view text, std::string_view unit) {
  if (!text.ends_with(unit)) return std::nullopt;
  return text.substr(0, text.size() - unit.size());
}

std::optional<std::int64_t> steps_of(std::string_view text) {
  for (const std::string_view unit : {"steps", "step"}) {
    const auto number = before(text, unit);
    const auto count = number ? base::parse_int(*number) : std::nullopt;
    if (count && *count >= 1 && *count <= kMostSteps) return count;
  }
  return std::nullopt;
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::chrono::milliseconds> time_of(std::string_view text) {
  for (const auto& [unit, seconds] :
       {std::pair<std::string_view, double>{"s", 1}, {"m", 60}, {"h", 3600}}) {
    const auto number = before(text, unit);
    const auto count = number ? number_of(*number) : std::nullopt;
    // Finer than a millisecond would round to nothing.
    if (count && *count * seconds >= 1e-3 && *count * seconds <= kMostSeconds) {
      return std::chrono::milliseconds(static_cast<std::int64_t>(*count * seconds * 1e3));
    }
  }
  return std::nullopt;
}

}  // namespace

CLI::Option* add_interval(CLI::App& app, const std::string& flag, std::optional<std::string>& text,
                          const std::string& description) {
  return app.add_option(flag, text, description)
      ->multi_option_policy(CLI::MultiOptionPolicy::Join)
      ->delimiter(',')
      ->option_text("INTERVAL");
}

train::Every parse_interval(std::string_view flag, std::string_view text, Never never) {
  const bool may_be_never = never == Never::kAllowed;
  if (may_be_never && base::trim(text) == "never") return {};
  const auto refuse = [&](std::string_view why) {
    return UsageError(base::str_cat(
        flag, " is ", base::quoted(text), why,
        "; give steps or time, such as 500steps, 100s, 10m or 2h, ",
        may_be_never ? "both as 100s,500steps, or never" : "or both as 100s,500steps"));
  };
  train::Every every;
  for (const std::string& part : base::split(text, ',')) {
    const std::string_view one = base::trim(part);
    if (const auto steps = steps_of(one)) {
      if (every.steps) throw refuse(", which gives steps twice");
      every.steps = steps;
    } else if (const auto time = time_of(one)) {
      if (every.time) throw refuse(", which gives a time twice");
      every.time = time;
    } else {
      throw refuse("");
    }
  }
  return every;
}

}  // namespace brigade::command
