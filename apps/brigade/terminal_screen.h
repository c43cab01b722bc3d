#pragma once

#include <termios.h>

#include <cstddef>
#include <optional>
#include <string_view>

namespace brigade::command {

/// While it lives, standard output shows a screen of its own, and keys of standard input arrive one
/// by one and without an echo. Its end restores both. Signals by keys (Ctrl-C) stay; stopping by a
/// key (Ctrl-Z) is off, because a stopped program would leave its screen behind. Where standard
/// input is no terminal, no keys arrive.
///
/// Thread-safety: one thread.
class TerminalScreen {
 public:
  TerminalScreen();
  ~TerminalScreen();
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  /// Whether standard output is a terminal, on which this can be used.
  static bool is_possible();

  struct Size {
    std::size_t columns = 80;
    std::size_t rows = 24;
  };
  static Size size();

  /// Shows lines of text, as many as fit; they must not be longer than the screen is wide.
  void show(std::string_view text);
  /// Whether keys arrive at standard input, which then can be polled.
  bool has_keys() const { return former_.has_value(); }

 private:
  std::optional<termios> former_;
};

}  // namespace brigade::command
