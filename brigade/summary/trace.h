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

/// Something that took time: a bar in the picture.
struct TraceEvent {
  std::string name;                   ///< What: "forward", "all_reduce".
  std::string category;               ///< What kind, to filter by: "compute", "communication".
  std::chrono::nanoseconds begin{0};  ///< Since any moment that is one for all.
  std::chrono::nanoseconds duration{0};
  std::int64_t replica = 0;  ///< Bars of one replica stand together.
  std::int64_t thread = 0;   ///< One line a thread of a replica.
  std::map<std::string, std::variant<std::string, std::int64_t, double>> args;  ///< Details.
};

/// What the picture calls a replica's lines; those without a name show their number.
struct TraceNames {
  std::map<std::int64_t, std::string> replicas;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> threads;  ///< By (replica, thread).
};

/// The events as Chrome trace JSON, which ui.perfetto.dev and chrome://tracing draw (TensorFlow:
/// `Timeline.generate_chrome_trace_format`). Throws kInvalidArgument if a duration is negative or a
/// text not UTF-8.
std::string chrome_trace(std::span<const TraceEvent> events, const TraceNames& names = {});

/// Writes it to `timeline-<step>.json` in `directory`, which must exist, in one step, and returns
/// the path. Throws as `io::atomic_write` does, too.
io::Path write_chrome_trace(io::FileSystem& files, const io::Path& directory, std::int64_t step,
                            std::span<const TraceEvent> events, const TraceNames& names = {});

}  // namespace brigade::summary
