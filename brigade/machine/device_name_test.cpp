#include "brigade/machine/device_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "brigade/base/error.h"

namespace brigade::machine {
namespace {

using ::testing::HasSubstr;

TEST(DeviceName, ReadsTensorFlowAndLibtorchSpellings) {
  const DeviceName gpu0{.type = DeviceType::kGpu, .index = 0};
  const DeviceName cpu1{.type = DeviceType::kCpu, .index = 1};
  for (const char* text : {"/gpu:0", "gpu:0", "cuda:0", "cuda", "gpu", "/device:GPU:0",
                           "/DEVICE:gpu:0", "GPU:0", " cuda:0\n"}) {
    EXPECT_EQ(DeviceName::parse(text), gpu0) << text;
  }
  for (const char* text : {"/cpu:1", "cpu:1", "/device:CPU:1", "/device:cpu:1", "Cpu:1"}) {
    EXPECT_EQ(DeviceName::parse(text), cpu1) << text;
  }
  EXPECT_EQ(DeviceName::parse("cpu").index, 0);
}

TEST(DeviceName, ReadsTasksOfACluster) {
  const DeviceName full = DeviceName::parse("/job:worker/replica:0/task:1/device:GPU:2");
  EXPECT_EQ(full.job, "worker");
  EXPECT_EQ(full.replica, 0);
  EXPECT_EQ(full.task, 1);
  EXPECT_EQ(full.type, DeviceType::kGpu);
  EXPECT_EQ(full.index, 2);
  const DeviceName brief = DeviceName::parse("/Job:PS_a/Task:3/gpu:0");
  EXPECT_EQ(brief.job, "PS_a") << "a job's name keeps its case";
  EXPECT_EQ(brief.task, 3);
  EXPECT_FALSE(brief.replica.has_value());
}

TEST(DeviceName, WritesBothSpellings) {
  EXPECT_EQ(DeviceName::parse("/device:CPU:1").to_string(), "cpu:1");
  EXPECT_EQ(DeviceName::parse("cuda:0").to_string(), "gpu:0");
  EXPECT_EQ(DeviceName::parse("cpu:1").tensorflow_name(), "/device:CPU:1");
  const DeviceName remote = DeviceName::parse("/job:worker/task:1/gpu:0");
  EXPECT_EQ(remote.to_string(), "/job:worker/task:1/gpu:0");
  EXPECT_EQ(remote.tensorflow_name(), "/job:worker/replica:0/task:1/device:GPU:0");
}

TEST(DeviceName, ReadsBackWhatItWrites) {
  for (const char* text : {"cpu:0", "gpu:7", "/job:a/replica:0/task:2/cpu:3", "/task:1/gpu:0"}) {
    const DeviceName name = DeviceName::parse(text);
    EXPECT_EQ(DeviceName::parse(name.to_string()), name) << text;
  }
}

TEST(DeviceName, ShowsTheSpellingsWhenItRefuses) {
  for (const char* text : {"",
                           " ",
                           "/",
                           "tpu:0",
                           "cpu:",
                           "cpu:x",
                           "cpu:-1",
                           "cpu:+1",
                           "cpu:1:2",
                           "cpu:99999999999",
                           "/cpu",
                           "/device:CPU",
                           "/device",
                           "//cpu:0",
                           "/cpu:0/",
                           "/cpu:0/gpu:0",
                           "/job:worker",
                           "/job:/cpu:0",
                           "/job:1x/cpu:0",
                           "/job:a/job:b/cpu:0",
                           "/task:x/cpu:0",
                           "/task:1/task:1/cpu:0",
                           "job:a/cpu:0",
                           "cpu 0",
                           "cuda::0"}) {
    try {
      DeviceName::parse(text);
      ADD_FAILURE() << "accepted '" << text << "'";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << text;
      EXPECT_THAT(error.what(), HasSubstr(std::string("'") + text + "'"));
      EXPECT_THAT(error.what(), HasSubstr("cpu:0, gpu:0 or cuda:0, /device:CPU:0"));
    }
  }
}

}  // namespace
}  // namespace brigade::machine
