#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "brigade/io/file_system.h"

namespace brigade::summary {

/// Something that took time: a bar in the trace viewer.
struct TraceEvent {
  std::string name;                   ///< The operation: "forward", "all_reduce".
  std::string category;               ///< The category to filter by: "compute", "communication".
  std::chrono::nanoseconds begin{0};  ///< Since any moment common to all events.
  std::chrono::nanoseconds duration{0};
  std::int64_t replica = 0;  ///< Bars of one replica are grouped.
  std::int64_t thread = 0;   ///< One line per thread of a replica.
  std::map<std::string, std::variant<std::string, std::int64_t, double>> args;  ///< Details.
};

/// The names of replicas and threads in the trace viewer; without a name the number is shown.
struct TraceNames {
  std::map<std::int64_t, std::string> replicas;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> threads;  ///< By (replica, thread).
};

/// The events as Chrome trace JSON, for ui.perfetto.dev and chrome://tracing (TensorFlow:
/// `Timeline.generate_chrome_trace_format`). Throws kInvalidArgument if a duration is negative or a
/// text not UTF-8.
std::string chrome_trace(std::span<const TraceEvent> events, const TraceNames& names = {});

/// Writes it atomically to `timeline-<step>.json` in `directory`, which must exist, and returns the
/// path. Throws as `io::atomic_write` does, too.
io::Path write_chrome_trace(io::FileSystem& files, const io::Path& directory, std::int64_t step,
                            std::span<const TraceEvent> events, const TraceNames& names = {});

}  // namespace brigade::summary
