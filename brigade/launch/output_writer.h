#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace brigade::launch {

struct OutputWriterOptions {
  /// How many bytes may wait to be written.
  std::size_t capacity = std::size_t{4} << 20;
  /// A reader that has taken nothing for so long has stalled.
  std::chrono::milliseconds stall = std::chrono::seconds(1);
};

/// Writes lines to a descriptor from a background thread, so that a reader that stalls (a pipe that
/// nobody empties, a terminal after Ctrl-S) never blocks the caller. What waits is bounded: lines
/// that do not fit are dropped and counted. A caller that can hold its own source back asks
/// `is_busy` first; then a reader that is slow, but reads, loses nothing.
///
/// A write that fails (disk full, descriptor closed) drops its lines, and the next ones are tried
/// again. A broken pipe is the process's SIGPIPE, as in any program.
///
/// Thread-safety: all functions from any thread, `finish` from one.
class OutputWriter {
 public:
  /// The descriptor must stay open. Throws kResourceExhausted where no thread can be started.
  explicit OutputWriter(int descriptor, OutputWriterOptions options = {});
  /// Drops what is not written yet.
  ~OutputWriter();
  OutputWriter(const OutputWriter&) = delete;
  OutputWriter& operator=(const OutputWriter&) = delete;

  /// Takes whole lines, which come out in one piece where they are short. Never blocks.
  void write(std::string_view lines);
  /// Whether much waits, and the reader still reads: more should be brought later.
  bool is_busy() const;
  /// Whether little waits.
  bool has_room() const;
  /// Waits until all is written. A reader that takes nothing for `patience`, or not all by
  /// `deadline`, loses the rest. `write` does nothing from then on.
  void finish(std::chrono::milliseconds patience, std::chrono::steady_clock::time_point deadline =
                                                      std::chrono::steady_clock::time_point::max());

  /// How many did not fit.
  std::int64_t dropped_lines() const;
  /// How many could not be written, and why: the first write that failed, as `errno` has it.
  std::int64_t failed_lines() const;
  std::optional<int> error() const;

 private:
  struct Shared;
  static void run(Shared& shared);

  const std::shared_ptr<Shared> shared_;  // the thread's too: it may be left in a write that blocks
  std::thread thread_;
};

}  // namespace brigade::launch
