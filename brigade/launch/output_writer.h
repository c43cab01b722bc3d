#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

namespace brigade::launch {

struct OutputWriterOptions {
  /// The number of bytes that may wait to be written.
  std::size_t capacity = std::size_t{4} << 20;
  /// A reader that has read nothing for this long has stalled.
  std::chrono::milliseconds stall = std::chrono::seconds(1);
};

/// Writes lines to a descriptor from a background thread, so that a stalled reader (a full pipe, a
/// terminal after Ctrl-S) never blocks the caller. The queue is bounded: lines that do not fit are
/// dropped and counted. A caller that can pause its source checks `is_busy` first; then a slow
/// reader loses nothing.
///
/// A failed write (disk full, descriptor closed) drops its lines; later lines are tried again. A
/// broken pipe raises SIGPIPE, as in any program.
///
/// Thread-safety: all functions from any thread, `finish` from one.
class OutputWriter {
 public:
  /// The descriptor must stay open. Throws kResourceExhausted if no thread can be started.
  explicit OutputWriter(int descriptor, OutputWriterOptions options = {});
  /// Drops what is not written yet.
  ~OutputWriter();
  OutputWriter(const OutputWriter&) = delete;
  OutputWriter& operator=(const OutputWriter&) = delete;

  /// Takes whole lines. Short ones are written in one call. Never blocks.
  void write(std::string_view lines);
  /// Whether the queue is more than half full and the reader still reads: write later.
  bool is_busy() const;
  /// Whether the queue is at most half full.
  bool has_room() const;
  /// Waits until everything is written. The rest is dropped if the reader reads nothing for
  /// `patience`, or not everything by `deadline`. Later calls of `write` are dropped.
  void finish(std::chrono::milliseconds patience, std::chrono::steady_clock::time_point deadline =
                                                      std::chrono::steady_clock::time_point::max());

  /// The number of lines that did not fit.
  std::int64_t dropped_lines() const;
  /// The number of lines whose write failed, and the `errno` of the first failed write.
  std::int64_t failed_lines() const;
  std::optional<int> error() const;

 private:
  struct Shared;
  static void run(Shared& shared);

  const std::shared_ptr<Shared>
      shared_;  // shared with the thread, which may stay in a blocking write
  std::thread thread_;
};

}  // namespace brigade::launch
