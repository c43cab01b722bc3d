#include "brigade/summary/run_metadata.h"

#include <gtest/gtest.h>

#include <vector>

#include "brigade/base/error.h"
#include "brigade/summary/proto/run_metadata.pb.h"

namespace brigade::summary {
namespace {

using std::chrono::microseconds;

TEST(RunMetadata, GroupsTimingsByDevice) {
  const std::vector<NodeTiming> timings = {
      {"conv1", "cpu:1", microseconds(1000), microseconds(20), 3},
      {"conv1", "cpu:0", microseconds(1001), microseconds(21), 4},
      {"conv2", "cpu:1", microseconds(1020), microseconds(5), 3}};
  proto::RunMetadata message;
  ASSERT_TRUE(message.ParseFromString(encode_run_metadata(timings)));
  ASSERT_EQ(message.step_stats().dev_stats_size(), 2);
  const proto::DeviceStepStats& second = message.step_stats().dev_stats(1);
  EXPECT_EQ(message.step_stats().dev_stats(0).device(), "cpu:0");
  EXPECT_EQ(second.device(), "cpu:1");
  ASSERT_EQ(second.node_stats_size(), 2);
  EXPECT_EQ(second.node_stats(1).node_name(), "conv2");
  EXPECT_EQ(second.node_stats(1).all_start_micros(), 1020);
  EXPECT_EQ(second.node_stats(1).op_end_rel_micros(), 5);
  EXPECT_EQ(second.node_stats(1).all_end_rel_micros(), 5);
  EXPECT_EQ(second.node_stats(1).thread_id(), 3u);
}

TEST(RunMetadata, RefusesInvalidTimings) {
  EXPECT_THROW(encode_run_metadata(std::vector<NodeTiming>{{"\xff", ""}}), Error);
  EXPECT_THROW(encode_run_metadata(std::vector<NodeTiming>{{"a", "", {}, microseconds(-1)}}),
               Error);
}

}  // namespace
}  // namespace brigade::summary
