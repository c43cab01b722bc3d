// Writes event files for the Python tests of this folder.
//   event_file_sample all DIR      one of every kind of summary
//   event_file_sample forever DIR  scalars 0, 1, 2, ... until it is killed; after each flush it
//   prints how many are in the file
#include <cmath>
#include <cstdint>
#include <iostream>
#include <numeric>
#include <string_view>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/base/strings.h"
#include "brigade/io/file_system.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/summary/trace.h"

namespace {

using namespace brigade::summary;

std::vector<GraphNode> sample_graph() {
  return {{.name = "images", .op = "Placeholder", .output_shapes = {{-1, 1, 28, 28}}},
          {.name = "conv1/weights",
           .op = "VariableV2",
           .device = "/job:worker/task:0/device:CPU:0",
           .attributes = {{"shape", Shape{32, 1, 5, 5}}, {"trainable", true}}},
          {.name = "conv1/Conv2D", .op = "Conv2D", .inputs = {"images", "conv1/weights"}}};
}

void write_images(SummaryWriter& summaries) {
  for (const std::int64_t channels : {1, 3, 4}) {
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(5 * 7 * channels));
    std::iota(pixels.begin(), pixels.end(), std::uint8_t{200});
    summaries.image(brigade::base::str_cat("image", channels),
                    brigade::image::ImageView(pixels, {5, 7}, channels), 4);
  }
}

/// Values of many magnitudes and both signs, which other programs can compute exactly too.
std::vector<double> spread() {
  std::vector<double> values;
  for (int i = 0; i < 2000; ++i)
    values.push_back(std::ldexp((i * 7919 % 1000 - 500) / 64.0, i % 40 - 20));
  return values;
}

void write_all(SummaryWriter& summaries) {
  summaries.session_start(0);
  summaries.graph(sample_graph());
  for (std::int64_t step = 0; step < 10; ++step) {
    summaries.scalar("loss", 1.0 / static_cast<double>(step + 1), step);
  }
  const std::vector<TaggedScalar> shares = {{"share/input", 0.25}, {"share/compute", 0.75}};
  summaries.scalars(shares, 2);
  const std::vector<double> values = {-1.5, 0.0, 0.5, 0.5, 3.0, 1e30, -1e-13};
  summaries.histogram("weights", values, 3);
  summaries.histogram("spread", spread(), 3);
  summaries.histogram("ranges", Histogram{0, 2, 3, 4, 5.5, {1, 2}, {1, 2}}, 3);
  write_images(summaries);
  summaries.text("note", "# gr\xc3\xbc\xc3\x9f *dich*", 5);
  const std::vector<NodeTiming> timings = {{.node = "conv1/Conv2D",
                                            .device = "/job:worker/task:0/device:CPU:0",
                                            .begin = std::chrono::microseconds(1000),
                                            .duration = std::chrono::microseconds(250),
                                            .thread = 1}};
  summaries.run_metadata("step_6", timings, 6);
}

[[noreturn]] void write_for_ever(SummaryWriter& summaries) {
  for (std::int64_t step = 0;; ++step) {
    summaries.scalar("step", static_cast<double>(step), step);
    if (step % 100 != 99) continue;
    summaries.flush();
    std::cout << step + 1 << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string_view what = argv[1];
  const brigade::base::SystemClock clock;
  const auto files = brigade::io::posix_file_system();
  SummaryWriter summaries(files, argv[2], clock);
  if (what == "forever") write_for_ever(summaries);
  write_all(summaries);
  summaries.close();
  const std::vector<TraceEvent> trace = {{.name = "forward", .category = "compute"}};
  write_chrome_trace(*files, argv[2], 6, trace);
  return 0;
}
