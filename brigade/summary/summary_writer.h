#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "brigade/base/clock.h"
#include "brigade/io/file_system.h"
#include "brigade/summary/event_file_writer.h"
#include "brigade/summary/graph_def.h"
#include "brigade/summary/histogram.h"
#include "brigade/summary/png_encoder.h"
#include "brigade/summary/run_metadata.h"

namespace brigade::summary {

/// One of several numbers of a step.
struct TaggedScalar {
  std::string_view tag;
  double value = 0;
};

/// Writes what TensorBoard shows into an event file of a folder (TensorFlow: `tf.summary` with
/// `FileWriter`). Tags are names such as "loss" or "conv1/weights": parts up to a '/' group; one
/// tag belongs to one kind of summary. Each call stamps the time of day and hands the event to the
/// writing thread (see `EventFileWriter` for what is lost when, and for errors).
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

  /// A point of a curve; stored with 32 bits, what is too large as infinity. NaN is kept, and
  /// shown.
  void scalar(std::string_view tag, double value, std::int64_t step);
  /// Several at once, for one step: they share one record.
  void scalars(std::span<const TaggedScalar> values, std::int64_t step);

  /// The distribution of `values`, in TensorFlow's ranges; throws kInvalidArgument if one is not
  /// finite.
  void histogram(std::string_view tag, std::span<const double> values, std::int64_t step);
  void histogram(std::string_view tag, std::span<const float> values, std::int64_t step);
  /// One that was counted already, with any ranges; throws as `check_histogram` does.
  void histogram(std::string_view tag, const Histogram& histogram, std::int64_t step);

  /// A picture; compresses it on this thread. Throws as `encode_png` does.
  void image(std::string_view tag, const ImageView& image, std::int64_t step);
  /// A picture that is PNG, JPEG or GIF already; its sizes must be those of the file.
  void image(std::string_view tag, const EncodedImage& image, std::int64_t step);

  /// Text, shown as Markdown.
  void text(std::string_view tag, std::string_view markdown, std::int64_t step);

  /// The model: once a file. Throws as `encode_graph` does.
  void graph(std::span<const GraphNode> nodes);
  /// When the nodes of that graph ran in `step`; TensorBoard lists it by its tag, which each run of
  /// it must have to itself ("step_100").
  void run_metadata(std::string_view tag, std::span<const NodeTiming> timings, std::int64_t step);

  /// Says that training begins, or goes on after a restart, with `step`: TensorBoard drops what
  /// earlier files of the folder say of this step and later ones, which never became part of the
  /// run.
  void session_start(std::int64_t step);

  /// Returns once everything added before is in the file.
  void flush() { events_.flush(); }
  /// Flushes and closes the file. Calling it again does nothing; the destructor does it, too.
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
