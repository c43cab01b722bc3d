#include "brigade/summary/event.h"

#include <limits>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/summary/proto/event.pb.h"

namespace brigade::summary {
namespace {

constexpr const char* kTextPlugin = "text";

void write_value(proto::Summary::Value&, const std::monostate&) {}

void write_value(proto::Summary::Value& message, const Scalar& scalar) {
  message.set_simple_value(scalar.value);
}

void write_value(proto::Summary::Value& message, const Histogram& histogram) {
  proto::HistogramProto& target = *message.mutable_histo();
  target.set_min(histogram.min);
  target.set_max(histogram.max);
  target.set_num(histogram.count);
  target.set_sum(histogram.sum);
  target.set_sum_squares(histogram.sum_squares);
  target.mutable_bucket_limit()->Add(histogram.limits.begin(), histogram.limits.end());
  target.mutable_bucket()->Add(histogram.counts.begin(), histogram.counts.end());
}

void write_value(proto::Summary::Value& message, const EncodedImage& image) {
  proto::Summary::Image& target = *message.mutable_image();
  target.set_height(image.height);
  target.set_width(image.width);
  target.set_colorspace(image.channels);
  target.set_encoded_image_string(image.bytes);
}

void write_value(proto::Summary::Value& message, const Text& text) {
  base::check_utf8(text.markdown, "the text \"", message.tag(), "\"");
  message.mutable_metadata()->mutable_plugin_data()->set_plugin_name(kTextPlugin);
  proto::TensorProto& tensor = *message.mutable_tensor();
  tensor.set_dtype(proto::DT_STRING);
  tensor.mutable_tensor_shape();  // present and without dimensions: a scalar
  tensor.add_string_val(text.markdown);
}

void write_content(proto::Event&, const std::monostate&) {}

void write_content(proto::Event& message, const FileVersion& file) {
  base::check_utf8(file.version, "the file version");
  message.set_file_version(file.version);
}

void write_content(proto::Event& message, const Summary& summary) {
  message.mutable_summary();  // also when it is empty
  for (const TaggedValue& value : summary.values) {
    base::check_utf8(value.tag, "the tag \"", value.tag, "\"");
    proto::Summary::Value& target = *message.mutable_summary()->add_value();
    target.set_tag(value.tag);
    std::visit([&target](const auto& content) { write_value(target, content); }, value.value);
  }
}

void write_content(proto::Event& message, const GraphContent& graph) {
  message.set_graph_def(graph.bytes);
}

void write_content(proto::Event& message, const RunMetadataContent& run) {
  base::check_utf8(run.tag, "the tag \"", run.tag, "\"");
  message.mutable_tagged_run_metadata()->set_tag(run.tag);
  message.mutable_tagged_run_metadata()->set_run_metadata(run.bytes);
}

void write_content(proto::Event& message, const SessionStart&) {
  message.mutable_session_log()->set_status(proto::SessionLog::START);
}

Histogram read_histogram(const proto::HistogramProto& message) {
  return {.min = message.min(),
          .max = message.max(),
          .count = message.num(),
          .sum = message.sum(),
          .sum_squares = message.sum_squares(),
          .limits = {message.bucket_limit().begin(), message.bucket_limit().end()},
          .counts = {message.bucket().begin(), message.bucket().end()}};
}

bool is_text(const proto::Summary::Value& message) {
  return message.metadata().plugin_data().plugin_name() == kTextPlugin &&
         message.tensor().string_val_size() == 1;
}

TaggedValue read_value(const proto::Summary::Value& message) {
  using Message = proto::Summary::Value;
  TaggedValue value{.tag = message.tag(), .value = {}};
  if (message.value_case() == Message::kSimpleValue) {
    value.value = Scalar{message.simple_value()};
  } else if (message.value_case() == Message::kHisto) {
    value.value = read_histogram(message.histo());
  } else if (message.value_case() == Message::kImage) {
    const proto::Summary::Image& image = message.image();
    value.value = EncodedImage{image.height(), image.width(), image.colorspace(),
                               image.encoded_image_string()};
  } else if (message.value_case() == Message::kTensor && is_text(message)) {
    value.value = Text{message.tensor().string_val(0)};
  }
  return value;
}

Summary read_summary(const proto::Summary& message) {
  Summary summary;
  for (const proto::Summary::Value& value : message.value()) {
    summary.values.push_back(read_value(value));
  }
  return summary;
}

}  // namespace

std::string encode_event(const Event& event) {
  proto::Event message;
  message.set_wall_time(event.wall_time);
  message.set_step(event.step);
  std::visit([&message](const auto& content) { write_content(message, content); }, event.content);
  check_argument(message.ByteSizeLong() <= std::numeric_limits<std::int32_t>::max(), "an event of ",
                 message.ByteSizeLong(), " bytes exceeds the limit of an event, 2 GiB");
  return message.SerializeAsString();
}

Event decode_event(std::string_view bytes) {
  proto::Event message;
  if (bytes.size() > std::numeric_limits<std::int32_t>::max() ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw Error(ErrorCode::kDataLoss, bytes.size(), " bytes that are not an event");
  }
  Event event{.wall_time = message.wall_time(), .step = message.step(), .content = {}};
  if (message.has_file_version()) event.content = FileVersion{message.file_version()};
  if (message.has_summary()) event.content = read_summary(message.summary());
  if (message.has_graph_def()) event.content = GraphContent{message.graph_def()};
  if (message.has_tagged_run_metadata()) {
    const proto::TaggedRunMetadata& run = message.tagged_run_metadata();
    event.content = RunMetadataContent{run.tag(), run.run_metadata()};
  }
  if (message.session_log().status() == proto::SessionLog::START) event.content = SessionStart{};
  return event;
}

}  // namespace brigade::summary
