#include "apps/brigade/flag_values.h"

#include <charconv>
#include <cstdlib>

#include "apps/brigade/exit_code.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/base/unknown_name.h"

namespace brigade::command {
namespace {

bool is_flag(const std::string& argument) {
  return argument.size() > 1 && argument.front() == '-';
}

[[noreturn]] void refuse(const std::string& flag) {
  throw UsageError(
      flag,
      " is given an empty value; give one, or leave the flag out (is a shell variable not set?)");
}

constexpr double kMostSeconds = 1e9;
constexpr std::int64_t kMost = std::int64_t{1} << 31;  // products of two still fit

// The number in front of `unit`, if `text` ends with it.
std::optional<std::string_view> before(std::string_view text, std::string_view unit) {
  if (!text.ends_with(unit)) return std::nullopt;
  return text.substr(0, text.size() - unit.size());
}

std::optional<std::int64_t> steps_of(std::string_view text) {
  for (const std::string_view unit : {"steps", "step"}) {
    const auto number = before(text, unit);
    const auto count = number ? base::parse_int(*number) : std::nullopt;
    if (count && *count >= 1 && *count <= kMost) return count;
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

/// The first long one of "-n,--nproc,--nproc-per-node".
std::string main_name(const std::string& names) {
  for (const std::string& name : base::split(names, ',')) {
    if (name.starts_with("--")) return name;
  }
  return names;
}

bool is_whole(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

void check_no_empty_values(const std::vector<std::string>& arguments) {
  const std::string* before = nullptr;
  for (const std::string& argument : arguments) {
    if (argument == "--") return;
    // Only the first '=' ends a flag's name.
    if (is_flag(argument) && argument.find('=') == argument.size() - 1)
      refuse(argument.substr(0, argument.size() - 1));
    if (argument.empty()) {
      if (before != nullptr && is_flag(*before) && before->find('=') == std::string::npos)
        refuse(*before);
      throw UsageError("an empty argument is given (is a shell variable not set?)");
    }
    before = &argument;
  }
}

void check_choice(std::string_view what, const std::string& word,
                  const std::vector<std::string>& allowed) {
  for (const std::string& candidate : allowed) {
    if (word == candidate) return;
  }
  throw UsageError("unknown ", what, " ", base::quoted(word),
                   base::did_you_mean(word, allowed, "."), " Known: ", base::join(allowed, ", "));
}

void check_at_least(const char* flag, std::int64_t value, std::int64_t least) {
  if (value < least) {
    throw UsageError(flag, " is ", value, "; it must be at least ", least);
  }
  if (value > kMost) {
    throw UsageError(flag, " is ", value, "; it must be at most ", kMost);
  }
}

void check_whole_number(const std::string& names, const std::string& text, std::int64_t least,
                        std::int64_t most) {
  const std::string flag = main_name(names);
  if (!is_whole(text))
    throw UsageError(flag, " is ", base::quoted(text), "; it must be a whole number");
  const auto value = base::parse_int(text);
  const bool is_negative = text.starts_with('-');
  if (is_negative && (!value || *value < least))
    throw UsageError(flag, " is ", base::shortened(text), "; it must be at least ", least);
  if (!is_negative && (!value || *value > most))
    throw UsageError(flag, " is ", base::shortened(text), "; it must be at most ", most);
}

void check_number(const std::string& names, const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0')
    throw UsageError(main_name(names), " is ", base::quoted(text),
                     "; it must be a number, such as 0.1 or 1e-3");
}

std::chrono::milliseconds to_milliseconds(std::string_view flag, double seconds, ZeroSeconds zero) {
  const bool is_enough = zero == ZeroSeconds::kAllowed ? seconds >= 0.0 : seconds > 0.0;
  if (!(is_enough && seconds <= 1e6)) {
    throw UsageError(flag, " is ", seconds, "; give seconds, ",
                     zero == ZeroSeconds::kAllowed ? "0 to 1000000" : "above 0 and up to 1000000");
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

train::Every parse_interval(std::string_view flag, std::string_view text, Never never) {
  const bool may_be_never = never == Never::kAllowed;
  if (may_be_never && base::trim(text) == "never") return {};
  const auto refuse = [&](std::string_view why) {
    return UsageError(
        flag, " is ", base::quoted(text), why,
        "; give steps or time, such as 500steps, 100s, 10m or 2h, ",
        may_be_never ? "both as 100s,500steps, or never" : "or both as 100s,500steps");
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
