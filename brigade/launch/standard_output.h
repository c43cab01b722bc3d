#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "brigade/base/log.h"
#include "brigade/launch/line_router.h"
#include "brigade/launch/output_writer.h"

namespace brigade::launch {

/// The standard output and error of a launcher: the lines of its job and its own messages. Writing
/// never blocks (OutputWriter). If both are the same file or terminal, their order is kept.
///
/// Thread-safety: `write`, `log` from any thread; the rest from one.
class StandardOutput final : public LineSink {
 public:
  /// Throws kResourceExhausted if no thread can be started.
  explicit StandardOutput(OutputWriterOptions options = {});

  void write(Stream stream, std::string_view lines) override;
  bool is_busy() const override;
  /// From now on `is_busy` returns false: lines that do not fit are dropped.
  void stop_waiting() { is_waited_for_ = false; }

  /// For base::set_log_sink: writes one line to standard error in the log's format.
  void log(base::LogLevel level, std::string_view message);
  /// Logs the number of dropped lines once there is room again.
  void report_dropped();
  /// The number of lines dropped so far.
  std::int64_t dropped_lines() const;

  /// Finishes both outputs, as OutputWriter::finish. A loss is logged on standard error.
  void finish(std::chrono::milliseconds patience, std::chrono::steady_clock::time_point deadline);
  /// Why standard output could not be written: "No space left on device; 2 lines lost". Unset if it
  /// was written completely.
  std::optional<std::string> error() const;

 private:
  OutputWriter& writer(Stream stream) {
    return stream == Stream::kErrors && errors_ ? *errors_ : output_;
  }

  OutputWriter output_;
  std::optional<OutputWriter> errors_;  // unset: the same file as output
  const bool is_colored_;
  bool is_waited_for_ = true;
  std::int64_t reported_ = 0;
};

}  // namespace brigade::launch
