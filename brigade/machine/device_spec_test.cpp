#include "brigade/machine/device_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::machine {
namespace {

using ::testing::HasSubstr;

std::string merged(const char* outer, const char* inner) {
  return DeviceSpec::parse(inner).merged_over(DeviceSpec::parse(outer)).to_string();
}

TEST(DeviceSpec, WritesTensorFlowsSpelling) {
  const std::vector<std::pair<const char*, const char*>> spellings = {
      {"", ""},
      {" ", ""},
      {"/job:ps", "/job:ps"},
      {"/Job:PS/Task:1", "/job:PS/task:1"},
      {"/replica:0", "/replica:0"},
      {"/task:1/job:ps", "/job:ps/task:1"},
      {"gpu:0", "/device:GPU:0"},
      {"cuda:3", "/device:GPU:3"},
      {"/cpu:1", "/device:CPU:1"},
      {"gpu", "/device:GPU:*"},
      {"/gpu", "/device:GPU:*"},
      {"/device:gpu:*", "/device:GPU:*"},
      {"/job:w/gpu:1", "/job:w/device:GPU:1"},
      {"/job:worker/replica:0/task:1/gpu:2", "/job:worker/replica:0/task:1/device:GPU:2"}};
  for (const auto& [text, written] : spellings)
    EXPECT_EQ(DeviceSpec::parse(text).to_string(), written) << text;
}

TEST(DeviceSpec, ReadsBackWhatItWrites) {
  for (const char* text :
       {"", "/job:ps", "/task:4/gpu:1", "gpu", "/job:a/replica:0/task:2/cpu:3"}) {
    const DeviceSpec spec = DeviceSpec::parse(text);
    EXPECT_EQ(DeviceSpec::parse(spec.to_string()), spec) << text;
  }
}

TEST(DeviceSpec, IsReadableAsANameIfItNamesADevice) {
  const std::string written = DeviceSpec::parse("/job:ps/task:1/gpu:0").to_string();
  EXPECT_EQ(DeviceName::parse(written), DeviceName::parse("/job:ps/task:1/gpu:0"));
}

// The results are TensorFlow's (tf.device in tf.device, 2.21).
TEST(DeviceSpec, MergesFieldByFieldAndTheInnerOneWins) {
  EXPECT_EQ(merged("/job:worker", "/gpu:1"), "/job:worker/device:GPU:1");
  EXPECT_EQ(merged("/job:worker/task:1", "/task:2/cpu:0"), "/job:worker/task:2/device:CPU:0");
  EXPECT_EQ(merged("/gpu:1", "/cpu:0"), "/device:CPU:0");
  EXPECT_EQ(merged("/gpu:1", "/cpu"), "/device:CPU:1");
  EXPECT_EQ(merged("/cpu:1", "gpu"), "/device:GPU:1");
  EXPECT_EQ(merged("/replica:1", "/job:a"), "/job:a/replica:1");
}

TEST(DeviceSpec, MergingWithNothingChangesNothing) {
  for (const char* text : {"", "/job:ps", "/job:a/replica:0/task:2/device:CPU:3"}) {
    EXPECT_EQ(merged(text, ""), text);
    EXPECT_EQ(merged("", text), text);
    EXPECT_EQ(merged(text, text), text);
  }
}

TEST(DeviceSpec, MergingMayBeGroupedEitherWay) {
  const std::vector<DeviceSpec> specs = {
      DeviceSpec::parse("/job:a/gpu:1"), DeviceSpec::parse("/job:b/task:2"),
      DeviceSpec::parse("cpu"), DeviceSpec::parse("/replica:3/cpu:4"), DeviceSpec{}};
  for (const auto& a : specs) {
    for (const auto& b : specs) {
      for (const auto& c : specs)
        EXPECT_EQ(a.merged_over(b).merged_over(c), a.merged_over(b.merged_over(c)));
    }
  }
}

TEST(DeviceSpec, ShowsTheSpellingsWhenItRefuses) {
  for (const char* text : {"/", "/foo:0", "tpu:0", "/gpu:0/gpu:1", "/job:a/job:b", "/task:*",
                           "/task:x", "/device:GPU", "/job:ps/", "//gpu:0", "job:ps", "/job:"}) {
    try {
      DeviceSpec::parse(text);
      ADD_FAILURE() << "accepted '" << text << "'";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << text;
      EXPECT_THAT(error.what(), HasSubstr(std::string("'") + text + "'"));
      EXPECT_THAT(error.what(), HasSubstr("cpu:0, gpu:0 or cuda:0"));
    }
  }
}

TEST(DeviceSpec, SaysThatTpusAreNotSupported) {
  for (const char* text : {"tpu:0", "/device:TPU:0", "TPU", "xla:1"}) {
    try {
      DeviceSpec::parse(text);
      ADD_FAILURE() << "accepted '" << text << "'";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << text;
      EXPECT_THAT(error.what(), HasSubstr("TPUs are not supported (docs/guide/tpu.md")) << text;
    }
  }
}

}  // namespace
}  // namespace brigade::machine
