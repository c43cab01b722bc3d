#include "brigade/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "brigade/base/printable.h"

namespace brigade::base {
namespace {

/// The process-wide state of the log.
struct Log {
  std::atomic<LogLevel> level{LogLevel::kInfo};
  std::mutex mutex;  // guards sink, and keeps messages whole
  LogSink sink;
  spdlog::logger standard_error{"brigade", std::make_shared<spdlog::sinks::stderr_color_sink_mt>()};

  Log() { standard_error.set_pattern("%^[%l]%$ %v"); }
};

Log& process_log() {
  // Never destroyed: threads and destructors may log until the very end of the process.
  static Log* const log = new Log;
  return *log;
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  using spdlog::level::level_enum;
  constexpr std::array kLevels = {level_enum::info, level_enum::warn, level_enum::err,
                                  level_enum::off};
  return kLevels.at(static_cast<std::size_t>(level));
}

/// Messages may contain text from files and peers, so control characters are escaped. Lines after
/// the first are indented, so that none looks like a separate message.
std::string shown(std::string_view message) {
  std::string text = printable_lines(message);
  for (std::size_t end = text.find('\n'); end != std::string::npos;
       end = text.find('\n', end + 1)) {
    if (text.compare(end + 1, 2, "  ") != 0) text.insert(end + 1, "  ");
  }
  return text;
}

void write(LogLevel level, std::string_view raw) {
  Log& log = process_log();
  if (level < log.level.load(std::memory_order_relaxed)) return;
  const std::string message = shown(raw);
  const std::lock_guard<std::mutex> lock(log.mutex);
  if (log.sink) {
    log.sink(level, message);
  } else {
    log.standard_error.log(spdlog_level(level),
                           spdlog::string_view_t(message.data(), message.size()));
  }
}

}  // namespace

std::string_view to_string(LogLevel level) {
  constexpr std::array<std::string_view, 4> kNames = {"info", "warning", "error", "off"};
  return kNames.at(static_cast<std::size_t>(level));
}

void log_info(std::string_view message) {
  write(LogLevel::kInfo, message);
}
void log_warning(std::string_view message) {
  write(LogLevel::kWarning, message);
}
void log_error(std::string_view message) {
  write(LogLevel::kError, message);
}

void set_log_level(LogLevel level) {
  process_log().level.store(level, std::memory_order_relaxed);
}

void set_log_sink(LogSink sink) {
  Log& log = process_log();
  const std::lock_guard<std::mutex> lock(log.mutex);
  log.sink.swap(sink);
}

}  // namespace brigade::base
