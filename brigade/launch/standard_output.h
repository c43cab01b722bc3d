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

/// A launcher's standard output and error: the lines of its job and its own messages, none of which
/// ever blocks it (OutputWriter). Where both are the same file or terminal, their order is kept.
///
/// Thread-safety: `write`, `log` from any thread; the rest from one.
class StandardOutput final : public LineSink {
 public:
  /// Throws kResourceExhausted where no thread can be started.
  explicit StandardOutput(OutputWriterOptions options = {});

  void write(Stream stream, std::string_view lines) override;
  bool is_busy() const override;
  /// Nobody should wait from now on: what does not fit is dropped.
  void stop_waiting() { is_waited_for_ = false; }

  /// For base::set_log_sink: one line on standard error, as the log writes it by itself.
  void log(base::LogLevel level, std::string_view message);
  /// Logs how many lines were dropped, once lines are taken again.
  void report_dropped();
  /// How many lines were dropped so far.
  std::int64_t dropped_lines() const;

  /// Ends it, as OutputWriter::finish. A loss is logged, on whichever of the two can be written.
  void finish(std::chrono::milliseconds patience, std::chrono::steady_clock::time_point deadline);
  /// How standard output could not be written: "No space left on device; 2 lines lost"; unset if it
  /// could.
  std::optional<std::string> error() const;

 private:
  OutputWriter& writer(Stream stream) {
    return stream == Stream::kErrors && errors_ ? *errors_ : output_;
  }

  OutputWriter output_;
  std::optional<OutputWriter> errors_;  // none: the same file as output
  const bool is_colored_;
  bool is_waited_for_ = true;
  std::int64_t reported_ = 0;
};

/// While it lives, the log goes through an output.
class LogRedirection {
 public:
  explicit LogRedirection(StandardOutput& output);
  ~LogRedirection() { base::set_log_sink({}); }
  LogRedirection(const LogRedirection&) = delete;
  LogRedirection& operator=(const LogRedirection&) = delete;
};

/// "1,204 lines".
std::string lines_text(std::int64_t count);

}  // namespace brigade::launch
