#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <utility>

namespace brigade::command {

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
  CLI::App& app_;
  std::string name_;
};

}  // namespace brigade::command
