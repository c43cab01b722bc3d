#include "brigade/cluster/cluster_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/cluster/testing/refusal.h"

namespace brigade::cluster {
namespace {

using ::testing::HasSubstr;
using testing::refusal;
using ::testing::StartsWith;

std::string json_refusal(std::string_view text) {
  return refusal([&] { parse_cluster_json(text, "TF_CONFIG"); });
}

TEST(ClusterJson, ReadsListsAndSparseObjects) {
  const DescribedCluster read = parse_cluster_json(
      R"({"cluster": {"worker": {"0": "a:1", "2": "c:1"}, "chief": ["m:1"]},
          "task": {"type": "worker", "index": 2}, "rpc_layer": "grpc", "environment": "cloud"})",
      "TF_CONFIG");
  EXPECT_EQ(read.task, (Task{"worker", 2}));
  EXPECT_EQ(read.cluster.to_json(), R"({"chief":["m:1"],"worker":{"0":"a:1","2":"c:1"}})");
}

TEST(ClusterJson, EverythingMayBeMissing) {
  for (const char* text : {"{}", R"({"cluster": {}, "task": {}})"}) {
    const DescribedCluster read = parse_cluster_json(text, "TF_CONFIG");
    EXPECT_TRUE(read.cluster.is_empty());
    EXPECT_EQ(read.task, std::nullopt);
  }
}

TEST(ClusterJson, ReadsAnIndexThatIsAStringOfDigits) {
  const auto read = parse_cluster_json(R"({"task": {"type": "worker", "index": "3"}})", "x");
  EXPECT_EQ(read.task, (Task{"worker", 3}));
}

TEST(ClusterJson, SaysWhereBadJsonIsBad) {
  EXPECT_THAT(json_refusal(R"({"cluster": {"worker": ["a:1",]}})"),
              StartsWith("INVALID_ARGUMENT: TF_CONFIG: it is not JSON: line 1, column 31: "));
  EXPECT_THAT(json_refusal("{\n  'cluster': 1}"), HasSubstr("it is not JSON: line 2, column 3: "));
  EXPECT_THAT(json_refusal(R"({"cluster": {"worker": ["a:1"], "worker": ["b:1"]}})"),
              HasSubstr("the key 'worker' occurs twice"));
}

TEST(ClusterJson, SaysThePathOfAWrongType) {
  EXPECT_EQ(json_refusal("[]"),
            "INVALID_ARGUMENT: TF_CONFIG: the whole must be an object, not the array [].");
  EXPECT_THAT(json_refusal(R"({"cluster": "a"})"),
              HasSubstr(R"(cluster must be an object of jobs, not the string "a".)"));
  EXPECT_THAT(json_refusal(R"({"cluster": {"worker": "a:1"}})"),
              HasSubstr("cluster.worker must be a list of addresses"));
  EXPECT_THAT(json_refusal(R"({"cluster": {"worker": ["a:1", 2]}})"),
              HasSubstr(R"(cluster.worker[1] must be a string "host:port", not the number 2.)"));
  EXPECT_THAT(json_refusal(R"({"cluster": {"worker": {"0": null}}})"),
              HasSubstr("cluster.worker.0 must be a string"));
  EXPECT_THAT(json_refusal(R"({"cluster": {"worker": {"x": "a:1"}}})"),
              HasSubstr("the key of cluster.worker.x must be a task's index"));
  EXPECT_THAT(json_refusal(R"({"cluster": {"worker": {"1": "a:1", "01": "b:1"}}})"),
              HasSubstr("cluster.worker has the index 1 twice"));
  EXPECT_THAT(json_refusal(R"({"task": 1})"), HasSubstr("task must be an object"));
  EXPECT_THAT(json_refusal(R"({"task": {"type": 1, "index": 0}})"),
              HasSubstr("task.type must be a string, not the number 1."));
  EXPECT_THAT(json_refusal(R"({"task": {"type": "worker", "index": 1.5}})"),
              HasSubstr("task.index must be a whole number, not the number 1.5."));
  EXPECT_THAT(json_refusal(R"({"task": {"type": "worker", "index": -1}})"),
              HasSubstr("task.index is -1; indices count from 0."));
  EXPECT_THAT(json_refusal(R"({"task": {"type": "worker"}})"), HasSubstr("task.index is missing"));
  EXPECT_THAT(json_refusal(R"({"task": {"index": 0}})"), HasSubstr("task.type is missing"));
  EXPECT_THAT(json_refusal(R"({"rpc_layer": 3})"), HasSubstr("rpc_layer must be a string"));
}

TEST(ClusterJson, RefusesOtherProtocolsAndMisspeltKeys) {
  EXPECT_THAT(json_refusal(R"({"rpc_layer": "rdma"})"), HasSubstr("only \"grpc\" is built in"));
  EXPECT_THAT(json_refusal(R"({"clutser": {}})"),
              HasSubstr("a key 'clutser' that is not known; did you mean 'cluster'?"));
}

TEST(ClusterJson, PassesOnWhatIsWrongWithTheCluster) {
  EXPECT_EQ(json_refusal(R"({"cluster": {"worker": ["a"]}})"),
            "INVALID_ARGUMENT: TF_CONFIG: The cluster is not valid: of /job:worker/task:0, 'a' is "
            "not an address: it has no port; write host:port, or [IPv6]:port, as in "
            "worker0.example.org:2222.");
}

}  // namespace
}  // namespace brigade::cluster
