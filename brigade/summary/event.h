#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "brigade/summary/histogram.h"

namespace brigade::summary {

/// A number that is plotted over the steps. TensorBoard's files store 32 bits.
struct Scalar {
  float value = 0;
  friend bool operator==(const Scalar&, const Scalar&) = default;
};

/// An image, compressed as PNG (`image::encode_png`); TensorBoard also shows JPEG and GIF.
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

/// One entry of a summary. `std::monostate` stands for other kinds in files of other programs.
struct TaggedValue {
  std::string tag;
  std::variant<std::monostate, Scalar, Histogram, EncodedImage, Text> value;
  friend bool operator==(const TaggedValue&, const TaggedValue&) = default;
};

/// The first event of a file gives the format version.
struct FileVersion {
  std::string version;
  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};

/// The values of one step.
struct Summary {
  std::vector<TaggedValue> values;
  friend bool operator==(const Summary&, const Summary&) = default;
};

/// A graph encoded by `encode_graph` (brigade/summary/graph_def.h).
struct GraphContent {
  std::string bytes;
  friend bool operator==(const GraphContent&, const GraphContent&) = default;
};

/// The times of the graph's nodes in one step, encoded by `encode_run_metadata`.
struct RunMetadataContent {
  std::string tag;
  std::string bytes;
  friend bool operator==(const RunMetadataContent&, const RunMetadataContent&) = default;
};

/// Training starts (or restarts) at this event's step: TensorBoard drops the data of earlier files
/// for that step and later ones.
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

/// The event as TensorFlow's protobuf message `Event`. Throws kInvalidArgument if a tag or text is
/// not UTF-8, or if the event exceeds the size limit of a message (2 GiB).
std::string encode_event(const Event& event);

/// Decodes such a message. Throws kDataLoss if the bytes are not such a message.
Event decode_event(std::string_view bytes);

}  // namespace brigade::summary
