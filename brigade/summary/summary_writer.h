#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "brigade/base/clock.h"
#include "brigade/image/image.h"
#include "brigade/io/file_system.h"
#include "brigade/summary/event_file_writer.h"
#include "brigade/summary/graph_def.h"
#include "brigade/summary/histogram.h"

namespace brigade::summary {

/// One of several scalars of a step.
struct TaggedScalar {
  std::string_view tag;
  double value = 0;
};

/// Writes summaries for TensorBoard into an event file of a folder (TensorFlow: `tf.summary` with
/// `FileWriter`). Tags are names such as "loss" or "conv1/weights": parts up to a '/' form groups;
/// use a tag for one kind of summary only. Each call records the time of day and passes the event
/// to the writing thread (see `EventFileWriter` for durability and errors).
///
///   SummaryWriter summaries(io::posix_file_system(), "run", clock);
///   summaries.scalar("loss", loss, step);
///   summaries.close();
///
/// All functions throw kInvalidArgument if a tag is empty or not UTF-8, and as
/// `EventFileWriter::add`.
///
/// Thread-safety: all functions from any thread.
class SummaryWriter {
 public:
  /// `clock` must outlive the writer. Throws as `EventFileWriter` does.
  SummaryWriter(std::shared_ptr<io::FileSystem> files, const io::Path& directory,
                const base::Clock& clock, EventFileOptions options = {});

  /// A point of a curve; stored with 32 bits, too large values as infinity. NaN is stored and
  /// shown.
  void scalar(std::string_view tag, double value, std::int64_t step);
  /// Several scalars of one step in one record.
  void scalars(std::span<const TaggedScalar> values, std::int64_t step);

  /// The distribution of `values`, in TensorFlow's ranges; throws kInvalidArgument if one is not
  /// finite.
  void histogram(std::string_view tag, std::span<const double> values, std::int64_t step);
  void histogram(std::string_view tag, std::span<const float> values, std::int64_t step);
  /// A histogram that was counted already, with any ranges; throws as `check_histogram` does.
  void histogram(std::string_view tag, const Histogram& histogram, std::int64_t step);

  /// An image of at most 1 GiB; compresses it as PNG on the calling thread.
  void image(std::string_view tag, const brigade::image::ImageView& image, std::int64_t step);
  /// An image that is PNG, JPEG or GIF already; its dimensions must be those of the file.
  void image(std::string_view tag, const EncodedImage& image, std::int64_t step);

  /// Text, shown as Markdown.
  void text(std::string_view tag, std::string_view markdown, std::int64_t step);

  /// The model's graph; at most once per file. Throws as `encode_graph` does.
  void graph(std::span<const GraphNode> nodes);
  /// The times of that graph's nodes in `step`; TensorBoard lists it by its tag, which must be
  /// unique ("step_100").
  void run_metadata(std::string_view tag, std::span<const NodeTiming> timings, std::int64_t step);

  /// Records that training starts, or resumes, at `step`: TensorBoard drops the data of earlier
  /// files of the folder for this step and later ones, which is not part of the resumed run.
  void session_start(std::int64_t step);

  /// Returns once everything added before is in the file.
  void flush() { events_.flush(); }
  /// Flushes and closes the file. Calling it again does nothing; the destructor calls it too.
  void close() { events_.close(); }
  const io::Path& path() const { return events_.path(); }

 private:
  template <class Value>
  void add_value(std::string_view tag, Value value, std::int64_t step);
  template <class Content>
  void add_event(Content content, std::int64_t step);

  const base::Clock& clock_;
  EventFileWriter events_;
};

}  // namespace brigade::summary
