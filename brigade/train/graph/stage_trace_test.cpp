#include "brigade/train/graph/stage_trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace brigade::train {
namespace {

using concurrency::StageTimeline;
using concurrency::StageWork;

std::chrono::steady_clock::time_point at_microsecond(int moment) {
  return std::chrono::steady_clock::time_point(std::chrono::microseconds(moment));
}

TEST(StageTrace, HasABarForEachPassInTheRowOfItsStage) {
  const StageTimeline timeline{{{{StageWork::kForward, 3, at_microsecond(10), at_microsecond(14)}},
                                {{StageWork::kBackward, 1, at_microsecond(20), at_microsecond(29)},
                                 {StageWork::kOther, 0, at_microsecond(30), at_microsecond(31)}}}};
  const auto events = trace_events(timeline, 8);
  const auto json = nlohmann::json::parse(summary::chrome_trace(events, trace_names(timeline, 8)));
  std::vector<nlohmann::json> bars;
  std::vector<std::string> names;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") == "X") bars.push_back(event);
    if (event.at("ph") == "M") names.push_back(event.at("args").at("name"));
  }
  ASSERT_EQ(bars.size(), 3u);
  EXPECT_EQ(bars[0].at("name"), "forward 3");
  EXPECT_EQ(bars[0].at("cat"), "forward");
  EXPECT_EQ(bars[0].at("pid"), 8);
  EXPECT_EQ(bars[0].at("tid"), 0);
  EXPECT_EQ(bars[0].at("ts"), 10.0);
  EXPECT_EQ(bars[0].at("dur"), 4.0);
  EXPECT_EQ(bars[0].at("args").at("micro_batch"), 3);
  EXPECT_EQ(bars[1].at("name"), "backward 1");
  EXPECT_EQ(bars[1].at("tid"), 1);
  EXPECT_EQ(bars[2].at("cat"), "other");
  EXPECT_EQ(names, (std::vector<std::string>{"pipeline", "stage 0", "stage 1"}));
}

}  // namespace
}  // namespace brigade::train
