#include "brigade/summary/graph_def.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "brigade/base/error.h"
#include "brigade/summary/proto/run_metadata.pb.h"

namespace brigade::summary {
namespace {

using std::chrono::microseconds;
using testing::HasSubstr;

void expect_graph_refused(const std::vector<GraphNode>& nodes, const std::string& words) {
  try {
    encode_graph(nodes);
    FAIL() << "did not throw: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr(words));
  }
}

TEST(GraphDef, CanBeDecoded) {
  const std::vector<GraphNode> nodes = {
      {.name = "images", .op = "Placeholder", .output_shapes = {{-1, 1, 28, 28}, {}}},
      {.name = "conv1/weights",
       .op = "VariableV2",
       .device = "/job:worker/task:0/device:CPU:0",
       .attributes = {{"shape", Shape{32, 1, 5, 5}},
                      {"dtype", "float32"},
                      {"trainable", true},
                      {"count", std::int64_t{800}},
                      {"decay", 0.5}}},
      {.name = "conv1", .op = "Conv2D", .inputs = {"images", "conv1/weights:0", "^images"}}};
  EXPECT_EQ(decode_graph(encode_graph(nodes)), nodes);
}

TEST(GraphDef, ErrorsNameTheInvalidNode) {
  expect_graph_refused({{.name = "", .op = "A"}}, "no name");
  expect_graph_refused({{.name = "a"}, {.name = "a"}}, "two nodes named \"a\"");
  expect_graph_refused({{.name = "a", .inputs = {"b:1"}}}, "node \"a\" reads \"b:1\"");
  expect_graph_refused({{.name = "a", .device = "\xff"}}, "node \"a\"");
  expect_graph_refused({{.name = "\xff"}}, "UTF-8");
}

TEST(GraphDef, RefusesOtherBytes) {
  EXPECT_THROW(decode_graph("\x0a\x7f"), Error);
}

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
