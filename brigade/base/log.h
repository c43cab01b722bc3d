#pragma once

#include <functional>
#include <string_view>

#include "brigade/base/strings.h"

namespace brigade::base {

/// The severity of a message. Messages below the set level are dropped.
enum class LogLevel {
  kInfo,     ///< Progress and decisions.
  kWarning,  ///< The work continues, but not as requested, or slower than possible.
  kError,    ///< Something was lost or given up. Thrown errors are not logged in addition.
  kOff,      ///< Only for `set_log_level`: drops everything.
};

/// "info", "warning", "error" or "off".
std::string_view to_string(LogLevel level);

/// Receives each message at or above the level, without a trailing newline and safe for a terminal:
/// control characters are escaped (`printable_lines`), lines after the first are indented.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Write one message to the log: by default one line on standard error, `[warning] text`, colored
/// on a terminal. Thread-safety: any thread, at any time; the sink is called by one thread at a
/// time. Several pieces are one message, as `str_cat` writes them.
void log_info(std::string_view message);
void log_warning(std::string_view message);
void log_error(std::string_view message);
template <class First, class Second, class... More>
void log_info(const First& first, const Second& second, const More&... more) {
  log_info(str_cat(first, second, more...));
}
template <class First, class Second, class... More>
void log_warning(const First& first, const Second& second, const More&... more) {
  log_warning(str_cat(first, second, more...));
}
template <class First, class Second, class... More>
void log_error(const First& first, const Second& second, const More&... more) {
  log_error(str_cat(first, second, more...));
}

/// Drops messages below `level` from now on. The default is kInfo.
void set_log_level(LogLevel level);

/// Sends all messages of this process to `sink` from now on; an empty function restores the
/// default. The sink must neither log nor set a sink; the logging call throws what the sink throws.
/// When this returns, no thread is inside the former sink.
void set_log_sink(LogSink sink);

}  // namespace brigade::base
