#include "brigade/distribute/pipeline/stage_devices.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

/// The stages that the scopes around a layer mean.
std::vector<int> stages_of(const StageDevices& devices, const std::string& name) {
  const auto choice = devices.choice("layer", name);
  std::vector<int> stages;
  for (int stage = 0; choice && stage < devices.stages(); ++stage)
    if (devices.is_on(stage, *choice)) stages.push_back(stage);
  return stages;
}

TEST(StageDevices, OfOneProcessAreNamedInAnySpelling) {
  const StageDevices devices({"cpu:0", "cpu:1", "cpu:0", "cpu:1"});  // two stages each
  EXPECT_EQ(stages_of(devices, "/device:CPU:1"), (std::vector<int>{1, 3}));
  EXPECT_EQ(stages_of(devices, "/job:worker/task:0/cpu:0"), (std::vector<int>{0, 2}));
  EXPECT_EQ(stages_of(devices, "cpu"), (std::vector<int>{0, 2}));
  EXPECT_FALSE(devices.choice("layer", "/job:worker"));
  EXPECT_FALSE(devices.choice("layer", ""));
  const Error error = error_from([&] { devices.choice("conv", "gpu:0"); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "The layer 'conv' is in a device scope of 'gpu:0', and no stage"))
      << error.what();
}

TEST(StageDevices, OfSeveralWorkersAreNamedWithTheirTask) {
  // Two pipelines of two workers with two stages each; the chief is the first worker.
  const StageDevices devices({"cpu:0", "cpu:1", "cpu:0", "cpu:1"},
                             {{"chief", 0}, {"worker", 0}, {"worker", 1}, {"worker", 2}}, 2);
  EXPECT_EQ(stages_of(devices, "/job:chief/task:0"), (std::vector<int>{0, 1}));
  EXPECT_EQ(stages_of(devices, "/job:worker/task:0/cpu:1"), (std::vector<int>{3}));
  EXPECT_EQ(stages_of(devices, "/job:worker/task:1/cpu:1"), (std::vector<int>{1}));
  EXPECT_EQ(stages_of(devices, "/task:2/cpu:0"), (std::vector<int>{2}));
  EXPECT_EQ(devices.list(),
            "/job:chief/task:0/cpu:0, /job:chief/task:0/cpu:1, /job:worker/task:0/cpu:0, "
            "/job:worker/task:0/cpu:1");
  const Error several = error_from([&] { devices.choice("conv", "cpu:1"); });
  EXPECT_TRUE(mentions(several, "several workers of the pipeline have that device"))
      << several.what();
  const Error none = error_from([&] { devices.choice("conv", "/job:worker/task:7/cpu:0"); });
  EXPECT_TRUE(mentions(none, "the job has no such task")) << none.what();
}

}  // namespace
}  // namespace brigade::distribute
