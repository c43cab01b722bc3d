#pragma once

#include <CLI/CLI.hpp>
#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "apps/brigade/flag_values.h"

namespace brigade::command {

/// The parser's error in this command's words: "--steps needs a value".
inline std::string parser_text(const CLI::ParseError& error) {
  const std::string text = error.what();
  const bool has_no_value =
      dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && text.ends_with(" missing");
  return has_no_value ? text.substr(0, text.find(':')) + " needs a value" : text;
}

/// Adds flags to one group of a parser's help, which shows the default of every flag that has one.
class FlagGroup {
 public:
  /// The parser's own group.
  explicit FlagGroup(CLI::App& app) : FlagGroup(app, app.option_defaults()->get_group()) {}
  FlagGroup(CLI::App& app, std::string name) : app_(app), name_(std::move(name)) {}

  /// The flag sets `value`; unless that is empty or optional, it is the default.
  template <class T>
  CLI::Option* add(const std::string& flag, T& value, const std::string& text) {
    CLI::Option* option = app_.add_option(flag, value, text)->group(name_);
    check_is_number<typename NumberIn<T>::Type>(*option, flag);
    if constexpr (requires { value.empty(); }) {
      if (!value.empty()) option->capture_default_str();
    } else if constexpr (!requires { value.has_value(); }) {
      option->capture_default_str();
    }
    return option;
  }
  /// Seconds, with or without their unit: "30s", "30".
  template <class Seconds>
  CLI::Option* add_seconds(const std::string& flag, Seconds& seconds, const std::string& text) {
    return add(flag, seconds, text)->transform([](std::string value) {
      if (value.size() > 1 && value.back() == 's') value.pop_back();
      return value;
    });
  }
  /// Steps or time, see `parse_interval`. Given twice, it counts as `FIRST,SECOND`.
  CLI::Option* add_interval(const std::string& flag, std::optional<std::string>& interval,
                            const std::string& text) {
    return add(flag, interval, text)
        ->multi_option_policy(CLI::MultiOptionPolicy::Join)
        ->delimiter(',')
        ->option_text("INTERVAL");
  }
  CLI::Option* add_switch(const std::string& flag, bool& value, const std::string& text) {
    return app_.add_flag(flag, value, text)->group(name_);
  }

 private:
  /// What each value of a flag is converted to: T, or what an optional or a vector of T holds.
  template <class T>
  struct NumberIn {
    using Type = T;
  };
  template <class T>
  struct NumberIn<std::optional<T>> {
    using Type = T;
  };
  template <class T>
  struct NumberIn<std::vector<T>> {
    using Type = T;
  };
  /// The parser's own errors say less, and it makes the nearest number of one that is too large.
  template <class Number>
  static void check_is_number(CLI::Option& option, const std::string& flag) {
    if constexpr (std::integral<Number>) {
      option.check([flag](const std::string& text) {
        using Limits = std::numeric_limits<Number>;
        check_whole_number(flag, text, Limits::min(), Limits::max());
        return std::string();
      });
    } else if constexpr (std::floating_point<Number>) {
      option.check([flag](const std::string& text) {
        check_number(flag, text);
        return std::string();
      });
    }
  }

  CLI::App& app_;
  std::string name_;
};

}  // namespace brigade::command
