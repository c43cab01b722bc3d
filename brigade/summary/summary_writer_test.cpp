#include "brigade/summary/summary_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/testing/manual_clock.h"
#include "brigade/image/image.h"
#include "brigade/image/png.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/summary/event_file_reader.h"

namespace brigade::summary {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class SummaryWriterTest : public testing::Test {
 protected:
  /// All events except the first one.
  std::vector<Event> written() {
    summaries_.close();
    EventFileReader reader(*files_, summaries_.path());
    reader.next();
    std::vector<Event> events;
    while (auto event = reader.next()) events.push_back(*std::move(event));
    return events;
  }
  /// The only value of the only event.
  TaggedValue only_value() {
    const std::vector<Event> events = written();
    EXPECT_EQ(events.size(), 1u);
    EXPECT_EQ(events.at(0).step, 7);
    return std::get<Summary>(events.at(0).content).values.at(0);
  }

  base::ManualClock clock_;
  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  SummaryWriter summaries_{files_, "/run", clock_};
};

TEST_F(SummaryWriterTest, RecordsTimeAndStep) {
  clock_.advance(std::chrono::milliseconds(1500));
  summaries_.scalar("loss", 0.5, std::int64_t{1} << 40);
  EXPECT_EQ(written(),
            (std::vector<Event>{{1.5, std::int64_t{1} << 40, Summary{{{"loss", Scalar{0.5f}}}}}}));
}

TEST_F(SummaryWriterTest, SeveralScalarsShareAnEvent) {
  const std::vector<TaggedScalar> values = {{"a", 1}, {"b", 2}};
  summaries_.scalars(values, 3);
  summaries_.scalars({}, 4);
  EXPECT_EQ(written(), (std::vector<Event>{{0, 3, Summary{{{"a", Scalar{1}}, {"b", Scalar{2}}}}}}));
}

TEST_F(SummaryWriterTest, ScalarsBeyondFloatBecomeInfinity) {
  for (const double value : {1e300, -1e300, double{kInfinity}, std::nan("")}) {
    summaries_.scalar("x", value, 0);
  }
  std::vector<float> found;
  for (const Event& event : written()) {
    found.push_back(std::get<Scalar>(std::get<Summary>(event.content).values.at(0).value).value);
  }
  EXPECT_THAT(found, testing::ElementsAre(kInfinity, -kInfinity, kInfinity,
                                          testing::NanSensitiveFloatEq(std::nanf(""))));
}

TEST_F(SummaryWriterTest, CountsHistograms) {
  const std::vector<float> values = {1, 2, 2};
  summaries_.histogram("h", values, 7);
  HistogramCounter counter;
  counter.add(values);
  EXPECT_EQ(only_value(), (TaggedValue{"h", counter.histogram()}));
}

TEST_F(SummaryWriterTest, AcceptsHistogramsWithOtherRanges) {
  const Histogram histogram{0, 2, 3, 4, 5, {1, 2}, {1, 2}};
  summaries_.histogram("h", histogram, 7);
  EXPECT_EQ(only_value(), (TaggedValue{"h", histogram}));
}

TEST_F(SummaryWriterTest, CompressesImages) {
  const std::vector<std::uint8_t> pixels = {1, 2, 3, 4, 5, 6};
  const image::ImageView image(pixels, {1, 2}, 3);
  summaries_.image("i", image, 7);
  const std::string png = image::encode_png(image, {.use_filters = false});
  EXPECT_EQ(only_value(), (TaggedValue{"i", EncodedImage{1, 2, 3, png}}));
  EXPECT_EQ(image::decode_png(png), image::Image(image));
}

TEST_F(SummaryWriterTest, WritesTextGraphMetadataAndStart) {
  const std::vector<GraphNode> nodes = {{.name = "a", .op = "Relu"}};
  const std::vector<NodeTiming> timings = {{.node = "a"}};
  summaries_.text("t", "*hello*", 1);
  summaries_.graph(nodes);
  summaries_.run_metadata("step_2", timings, 2);
  summaries_.session_start(3);
  EXPECT_EQ(written(),
            (std::vector<Event>{{0, 1, Summary{{{"t", Text{"*hello*"}}}}},
                                {0, 0, GraphContent{encode_graph(nodes)}},
                                {0, 2, RunMetadataContent{"step_2", encode_run_metadata(timings)}},
                                {0, 3, SessionStart{}}}));
}

TEST_F(SummaryWriterTest, RefusesInvalidSummaries) {
  EXPECT_THROW(summaries_.scalar("", 1, 0), Error);
  EXPECT_THROW(summaries_.scalar("\xff", 1, 0), Error);
  EXPECT_THROW(summaries_.text("t", "\xff", 0), Error);
  EXPECT_THROW(summaries_.run_metadata("", {}, 0), Error);
  EXPECT_THROW(summaries_.histogram("h", Histogram{}, 0), Error);
  EXPECT_THROW(summaries_.histogram("h", std::vector<float>{kInfinity}, 0), Error);
  EXPECT_THROW(summaries_.image("i", image::ImageView(), 0), Error);
  const std::uint8_t* const none = nullptr;
  EXPECT_THROW(summaries_.image("i", image::ImageView(none, {1 << 30, 2}, 1, 2), 0), Error);
  EXPECT_THROW(summaries_.image("i", image::ImageView(none, {0, 3}, 1, 3), 0), Error);
  EXPECT_THROW(summaries_.image("i", image::ImageView(none, {2, 3}, 5, 15), 0), Error);
  EXPECT_THROW(summaries_.image("i", EncodedImage{}, 0), Error);
  EXPECT_TRUE(written().empty());
}

}  // namespace
}  // namespace brigade::summary
