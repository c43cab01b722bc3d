#include "brigade/launch/standard_output.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "brigade/base/strings.h"

namespace brigade::launch {

namespace {

bool is_same_file(int one, int other) {
  struct stat first {};
  struct stat second {};
  return ::fstat(one, &first) == 0 && ::fstat(other, &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

/// As the log colors its levels on a terminal.
std::string_view color_of(base::LogLevel level) {
  if (level == base::LogLevel::kInfo) return "\033[32m";
  return level == base::LogLevel::kWarning ? "\033[33m\033[1m" : "\033[31m\033[1m";
}

/// "1,204 lines".
std::string lines_text(std::int64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text + (count == 1 ? " line" : " lines");
}

}  // namespace

StandardOutput::StandardOutput(OutputWriterOptions options)
    : output_(STDOUT_FILENO, options), is_colored_(::isatty(STDERR_FILENO) == 1) {
  if (!is_same_file(STDOUT_FILENO, STDERR_FILENO)) errors_.emplace(STDERR_FILENO, options);
}

void StandardOutput::write(Stream stream, std::string_view lines) {
  writer(stream).write(lines);
}

bool StandardOutput::is_busy() const {
  return is_waited_for_ && (output_.is_busy() || (errors_ && errors_->is_busy()));
}

void StandardOutput::log(base::LogLevel level, std::string_view message) {
  const std::string_view color = is_colored_ ? color_of(level) : "";
  const std::string_view plain = is_colored_ ? "\033[m" : "";
  write(Stream::kErrors, base::str_cat(color, "[", level, "]", plain, " ", message, "\n"));
}

std::int64_t StandardOutput::dropped_lines() const {
  return output_.dropped_lines() + (errors_ ? errors_->dropped_lines() : 0);
}

void StandardOutput::report_dropped() {
  const std::int64_t dropped = dropped_lines();
  if (dropped == reported_ || !output_.has_room() || (errors_ && !errors_->has_room())) return;
  base::log_warning(lines_text(dropped - reported_),
                    " dropped: they were written faster than they could be shown.");
  reported_ = dropped;
}

void StandardOutput::finish(std::chrono::milliseconds patience,
                            std::chrono::steady_clock::time_point deadline) {
  output_.finish(patience, deadline);
  if (!errors_) return;
  if (const std::int64_t dropped = dropped_lines(); dropped > reported_) {
    log(base::LogLevel::kWarning,
        base::str_cat(lines_text(dropped - reported_), " dropped: they were not read."));
  }
  errors_->finish(patience, deadline);
}

std::optional<std::string> StandardOutput::error() const {
  const auto error = output_.error();
  if (!error) return std::nullopt;
  return base::str_cat(std::strerror(*error), "; ", lines_text(output_.failed_lines()), " lost");
}

}  // namespace brigade::launch
