#include "brigade/summary/graph_def.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/base/error.h"

namespace brigade::summary {
namespace {

using testing::HasSubstr;

void expect_refused(const std::vector<GraphNode>& nodes, const std::string& words) {
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
  expect_refused({{.name = "", .op = "A"}}, "no name");
  expect_refused({{.name = "a"}, {.name = "a"}}, "two nodes named \"a\"");
  expect_refused({{.name = "a", .inputs = {"b:1"}}}, "node \"a\" reads \"b:1\"");
  expect_refused({{.name = "a", .device = "\xff"}}, "node \"a\"");
  expect_refused({{.name = "\xff"}}, "UTF-8");
}

TEST(GraphDef, RefusesOtherBytes) {
  EXPECT_THROW(decode_graph("\x0a\x7f"), Error);
}

}  // namespace
}  // namespace brigade::summary
