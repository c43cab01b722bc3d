#include "brigade/summary/summary_writer.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/image/png.h"

namespace brigade::summary {
namespace {

void check_tag(std::string_view tag) {
  check_argument(!tag.empty(), "a summary needs a tag; it is empty");
  base::check_utf8(tag, "the tag \"", tag, "\"");
}

/// Converts to 32 bits; the plain conversion of values out of range is undefined.
float narrow(double value) {
  constexpr double kLargestFloat = std::numeric_limits<float>::max();
  if (std::abs(value) <= kLargestFloat) return static_cast<float>(value);
  if (std::isnan(value)) return std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  return value > 0 ? infinity : -infinity;
}

template <class T>
Histogram count(std::span<const T> values) {
  HistogramCounter counter;
  counter.add(values);
  return counter.histogram();
}

}  // namespace

SummaryWriter::SummaryWriter(std::shared_ptr<io::FileSystem> files, const io::Path& directory,
                             const base::Clock& clock, EventFileOptions options)
    : clock_(clock), events_(std::move(files), directory, clock, std::move(options)) {}

template <class Content>
void SummaryWriter::add_event(Content content, std::int64_t step) {
  const auto now = clock_.wall_time().time_since_epoch();
  events_.add({.wall_time = std::chrono::duration<double>(now).count(),
               .step = step,
               .content = std::move(content)});
}

template <class Value>
void SummaryWriter::add_value(std::string_view tag, Value value, std::int64_t step) {
  check_tag(tag);
  Summary summary;
  summary.values.push_back({.tag = std::string(tag), .value = std::move(value)});
  add_event(std::move(summary), step);
}

void SummaryWriter::scalar(std::string_view tag, double value, std::int64_t step) {
  add_value(tag, Scalar{narrow(value)}, step);
}

void SummaryWriter::scalars(std::span<const TaggedScalar> values, std::int64_t step) {
  if (values.empty()) return;
  Summary summary;
  for (const auto& [tag, value] : values) {
    check_tag(tag);
    summary.values.push_back({.tag = std::string(tag), .value = Scalar{narrow(value)}});
  }
  add_event(std::move(summary), step);
}

void SummaryWriter::histogram(std::string_view tag, std::span<const double> values,
                              std::int64_t step) {
  add_value(tag, count(values), step);
}

void SummaryWriter::histogram(std::string_view tag, std::span<const float> values,
                              std::int64_t step) {
  add_value(tag, count(values), step);
}

void SummaryWriter::histogram(std::string_view tag, const Histogram& histogram, std::int64_t step) {
  check_histogram(histogram);
  add_value(tag, histogram, step);
}

void SummaryWriter::image(std::string_view tag, const brigade::image::ImageView& image,
                          std::int64_t step) {
  constexpr std::int64_t kMostBytes = 1 << 30;
  check_argument(image.height() <= kMostBytes && image.row_values() <= kMostBytes &&
                     image.height() * image.row_values() <= kMostBytes,
                 "an image of ", image.height(), " by ", image.width(), " is larger than 1 GiB");
  // Without filters: the curves and matrices that are most often drawn do not need them.
  std::string bytes = brigade::image::encode_png(image, {.use_filters = false});
  add_value(tag,
            EncodedImage{.height = static_cast<std::int32_t>(image.height()),
                         .width = static_cast<std::int32_t>(image.width()),
                         .channels = static_cast<std::int32_t>(image.channels()),
                         .bytes = std::move(bytes)},
            step);
}

void SummaryWriter::image(std::string_view tag, const EncodedImage& image, std::int64_t step) {
  check_argument(image.height > 0 && image.width > 0 && !image.bytes.empty(), "the image \"", tag,
                 "\" is ", image.height, " by ", image.width, " and has ", image.bytes.size(),
                 " bytes; none of these may be 0");
  add_value(tag, image, step);
}

void SummaryWriter::text(std::string_view tag, std::string_view markdown, std::int64_t step) {
  add_value(tag, Text{std::string(markdown)}, step);
}

void SummaryWriter::graph(std::span<const GraphNode> nodes) {
  add_event(GraphContent{encode_graph(nodes)}, 0);
}

void SummaryWriter::run_metadata(std::string_view tag, std::span<const NodeTiming> timings,
                                 std::int64_t step) {
  check_tag(tag);
  add_event(RunMetadataContent{std::string(tag), encode_run_metadata(timings)}, step);
}

void SummaryWriter::session_start(std::int64_t step) {
  add_event(SessionStart{}, step);
}

}  // namespace brigade::summary
