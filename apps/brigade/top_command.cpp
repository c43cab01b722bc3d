#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "apps/brigade/commands.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "apps/brigade/interrupt.h"
#include "apps/brigade/job_view.h"
#include "apps/brigade/terminal_screen.h"
#include "brigade/base/printable.h"
#include "brigade/launch/signal_source.h"

namespace brigade::command {
namespace {

constexpr const char* kTopExamples = R"(Examples:
  brigade top /tmp/run
      a training: steps, rates, where a step spends its time, the last checkpoint; q quits
  brigade top /tmp/run --status http://127.0.0.1:9400
      with the ranks of its launcher, which was started with --status-port 9400
  brigade top /tmp/run --once --json
      one JSON object)";

constexpr std::size_t kPlainWidth = 200;

class TopCommand final : public Command {
 public:
  explicit TopCommand(CLI::App& parent)
      : Command(parent, "top", "Watch a running training in the terminal") {
    parser_.add_option("MODEL_DIR", directory_, "The model directory of the training");
    FlagGroup flags(parser_);
    flags.add("--status", status_,
              "The status page of its launcher: http://127.0.0.1:PORT, where PORT is that of "
              "--status-port");
    flags.add("--interval", interval_seconds_, "Seconds between two looks");
    flags.add_switch("--once", once_, "Show the state once, without a screen");
    output_.add_to(parser_);
    parser_.footer(kTopExamples);
  }

  int run() override {
    if (directory_.empty() && status_.empty())
      throw UsageError("top needs a model directory, or --status URL, or both");
    const auto interval = to_milliseconds("--interval", interval_seconds_);
    if (!status_.empty()) url_ = set_up([&] { return rpc::parse_local_url(status_); });
    if (!directory_.empty()) reader_.emplace(io::posix_file_system(), directory_);
    JobView view = set_up([&] { return look(); });  // errors are reported before there is a screen
    if (once_ || output_.json || !TerminalScreen::is_possible()) {
      output_.print(json_of(view), text_of(view, kPlainWidth));
      return kDone;
    }
    return watch(std::move(view), interval);
  }

 private:
  JobView look() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    JobView view{.time = std::chrono::duration<double>(now).count()};
    if (reader_) view.run = reader_->read();
    if (url_) view.status = read_status_page(*url_);
    return view;
  }

  /// A launcher that ends, or a folder that is removed, does not end the view.
  JobView look_again(const JobView& before) {
    JobView view = before;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    view.time = std::chrono::duration<double>(now).count();
    try {
      if (reader_) view.run = reader_->read();
    } catch (const Error& error) {
      view.run->missing = {base::printable(error.what())};
    }
    try {
      if (url_) view.status = read_status_page(*url_);
    } catch (const Error& error) {
      view.status = JobStatusPage{.problem = base::printable(error.what())};
    }
    return view;
  }

  int watch(JobView view, std::chrono::milliseconds interval) {
    launch::SignalSource signals({SIGINT, SIGTERM, SIGHUP, SIGWINCH});
    TerminalScreen screen;
    for (;;) {
      screen.show(text_of(view, TerminalScreen::size().columns) +
                  (screen.has_keys() ? "\nq quits\n" : ""));
      const auto next = std::chrono::steady_clock::now() + interval;
      bool is_resized = false;
      while (!is_resized && std::chrono::steady_clock::now() < next) {
        wait(signals, screen, next);
        while (const auto signal = signals.next()) {
          if (*signal != SIGWINCH) return exit_code_after(*signal);
          is_resized = true;
        }
        if (screen.has_keys() && is_quit_pressed()) return kDone;
      }
      if (!is_resized) view = look_again(view);
    }
  }

  static void wait(const launch::SignalSource& signals, const TerminalScreen& screen,
                   std::chrono::steady_clock::time_point until) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd waiting[] = {{.fd = signals.descriptor(), .events = POLLIN, .revents = 0},
                        {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0}};
    ::poll(waiting, screen.has_keys() ? 2 : 1,
           static_cast<int>(std::max<std::int64_t>(0, left.count())));
  }

  static bool is_quit_pressed() {
    char keys[64];
    const ssize_t count = ::read(STDIN_FILENO, keys, sizeof keys);
    const std::string_view pressed(keys, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    return pressed.find_first_of("qQ") != std::string_view::npos;
  }

  std::string directory_;
  std::string status_;
  double interval_seconds_ = 2;
  bool once_ = false;
  OutputFlag output_;
  std::optional<rpc::LocalUrl> url_;
  std::optional<runs::RunReader> reader_;
};

}  // namespace

std::unique_ptr<Command> make_top_command(CLI::App& parent) {
  return std::make_unique<TopCommand>(parent);
}

}  // namespace brigade::command
