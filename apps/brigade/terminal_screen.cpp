#include "apps/brigade/terminal_screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>
#include <string>

namespace brigade::command {
namespace {

// A terminal that is gone is no error: SIGHUP ends the program.
void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count < 0 && errno != EINTR) return;
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  }
}

// Of every terminal since the VT100: a second screen, and no cursor.
constexpr std::string_view kEnter = "\033[?1049h\033[?25l";
constexpr std::string_view kLeave = "\033[?25h\033[?1049l";

}  // namespace

TerminalScreen::TerminalScreen() {
  termios settings{};
  if (::tcgetattr(STDIN_FILENO, &settings) == 0) {
    former_ = settings;
    settings.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    settings.c_cc[VSUSP] = _POSIX_VDISABLE;
    settings.c_cc[VMIN] = 0;
    settings.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &settings);
  }
  write_all(kEnter);
}

TerminalScreen::~TerminalScreen() {
  write_all(kLeave);
  if (former_) ::tcsetattr(STDIN_FILENO, TCSANOW, &*former_);
}

bool TerminalScreen::is_possible() {
  return ::isatty(STDOUT_FILENO) == 1;
}

TerminalScreen::Size TerminalScreen::size() {
  winsize found{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &found) < 0 || found.ws_col == 0) return {};
  return {.columns = found.ws_col, .rows = found.ws_row};
}

void TerminalScreen::show(std::string_view text) {
  std::string screen = "\033[H";
  std::istringstream lines{std::string(text)};
  std::size_t left = size().rows;
  // No line end after the last row, which would scroll.
  for (std::string line; left > 0 && std::getline(lines, line); --left)
    screen += (screen.size() > 3 ? "\r\n" : "") + line + "\033[K";
  write_all(screen + "\033[J");
}

}  // namespace brigade::command
