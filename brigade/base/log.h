#pragma once

#include <functional>
#include <string_view>

namespace brigade::base {

/// How much a message matters. A message below the set level is dropped.
enum class LogLevel {
  kInfo,     ///< Progress and choices made: what a user who looks would like to know.
  kWarning,  ///< The work goes on, but not as asked for, or slower than it could.
  kError,    ///< Something was lost or given up. Errors that are thrown are not logged as well.
  kOff,      ///< Only for `set_log_level`: drops everything.
};

/// "info", "warning", "error" or "off".
std::string_view to_string(LogLevel level);

/// Receives each message that passes the level, without a trailing newline, fit for a terminal:
/// control characters are escaped (`printable_lines`), lines after the first are indented.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Write one message to the log: by default one line on standard error, `[warning] text`, colored
/// on a terminal. Thread-safety: any thread, at any time; the sink is called by one thread at a
/// time.
void log_info(std::string_view message);
void log_warning(std::string_view message);
void log_error(std::string_view message);

/// Drops messages below `level` from now on. The default is kInfo.
void set_log_level(LogLevel level);

/// Sends messages to `sink` from now on, in this whole process; an empty function brings the
/// default back. The sink must neither log nor set a sink, and what it throws comes out of the call
/// that logged. When this returns, no thread is inside the former sink.
void set_log_sink(LogSink sink);

}  // namespace brigade::base
