#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "brigade/summary/histogram.h"

namespace brigade::summary {

/// A number that is drawn over the steps. TensorBoard's files hold 32 bits.
struct Scalar {
  float value = 0;
  friend bool operator==(const Scalar&, const Scalar&) = default;
};

/// A picture, compressed as PNG (`encode_png`); JPEG and GIF are shown too.
struct EncodedImage {
  std::int32_t height = 0;
  std::int32_t width = 0;
  std::int32_t channels = 0;  ///< 1 gray, 2 gray and alpha, 3 RGB, 4 RGBA.
  std::string bytes;
  friend bool operator==(const EncodedImage&, const EncodedImage&) = default;
};

/// Text, shown as Markdown.
struct Text {
  std::string markdown;
  friend bool operator==(const Text&, const Text&) = default;
};

/// One entry of a summary. `std::monostate` is what a reader finds in files of other programs that
/// is none of these.
struct TaggedValue {
  std::string tag;
  std::variant<std::monostate, Scalar, Histogram, EncodedImage, Text> value;
  friend bool operator==(const TaggedValue&, const TaggedValue&) = default;
};

/// The first event of a file says how to read it.
struct FileVersion {
  std::string version;
  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};

/// Values of one step.
struct Summary {
  std::vector<TaggedValue> values;
  friend bool operator==(const Summary&, const Summary&) = default;
};

/// A graph, as `encode_graph` (brigade/summary/graph_def.h) gives it.
struct GraphContent {
  std::string bytes;
  friend bool operator==(const GraphContent&, const GraphContent&) = default;
};

/// When the nodes of the graph ran in one step, as `encode_run_metadata` gives it.
struct RunMetadataContent {
  std::string tag;
  std::string bytes;
  friend bool operator==(const RunMetadataContent&, const RunMetadataContent&) = default;
};

/// Training begins (again) with this event's step: TensorBoard forgets what earlier files say of
/// that step and later ones.
struct SessionStart {
  friend bool operator==(const SessionStart&, const SessionStart&) = default;
};

/// One record of an event file, as a plain value (TensorFlow: `tf.Event`).
struct Event {
  double wall_time = 0;  ///< In seconds since 1970.
  std::int64_t step = 0;
  std::variant<std::monostate, FileVersion, Summary, GraphContent, RunMetadataContent, SessionStart>
      content;
  friend bool operator==(const Event&, const Event&) = default;
};

}  // namespace brigade::summary
