#include "brigade/device/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/device/device_functions.h"

namespace brigade::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<Device> two_cpus_and_two_gpus() {
  Hardware hardware;
  hardware.gpu_cards = 2;
  return available_devices({.logical_cpus = 2, .allow_oversubscription = true}, hardware);
}

const PlacementRequest kConvolution{.name = "conv1/Conv2D"};
const PlacementRequest kWeights{.name = "conv1/weights", .kind = PlacedKind::kVariable};

// Everything the process logs while this lives.
class LogCapture {
 public:
  LogCapture() {
    base::set_log_sink([this](base::LogLevel level, std::string_view text) {
      lines.push_back(base::str_cat(level, " ", text));
    });
  }
  ~LogCapture() { base::set_log_sink({}); }
  std::vector<std::string> lines;
};

std::string placed(Placer& placer, const PlacementRequest& request = kWeights) {
  const auto device = placer.place(request);
  return device ? device->name.to_string() : "anywhere";
}

TEST(Placer, PlacesNothingWithoutAScope) {
  Placer placer({.log = true}, two_cpus_and_two_gpus());
  EXPECT_FALSE(placer.place(kWeights));
  const auto a = with_device("gpu:0");
  const auto b = with_device(std::nullopt);
  EXPECT_FALSE(placer.place(kWeights));
  const auto c = with_device(assign_to_device("cpu:1"));
  EXPECT_FALSE(placer.place(kWeights));
  EXPECT_THAT(placer.lines(), IsEmpty());
}

TEST(Placer, FindsTheDeviceThatTheScopesName) {
  Placer placer({}, two_cpus_and_two_gpus());
  const auto scope = with_device("/gpu:1");
  const auto device = placer.place(kWeights);
  ASSERT_TRUE(device);
  EXPECT_EQ(device->name.to_string(), "gpu:1");
  EXPECT_EQ(device->torch_device, c10::Device(c10::kCUDA, 1));
  const auto inner = with_device(assign_to_device("/gpu:0", "/device:CPU:1"));
  EXPECT_EQ(placed(placer, kWeights), "cpu:1");
  EXPECT_EQ(placed(placer, kConvolution), "gpu:0");
}

TEST(Placer, CompletesPartialNames) {
  Placer placer({.missing = MissingDevice::kRefuse}, two_cpus_and_two_gpus());
  EXPECT_EQ(placer.resolve("").name.to_string(), "cpu:0");
  EXPECT_EQ(placer.resolve("/job:worker/task:3").name.to_string(), "cpu:0");
  EXPECT_EQ(placer.resolve("/job:ps/task:1/gpu:1").name.to_string(), "gpu:1");
  EXPECT_EQ(placer.resolve("gpu").name.to_string(), "gpu:0");
  EXPECT_EQ(placer.resolve("cuda:1").name.to_string(), "gpu:1");
  const auto scope = with_device("/job:worker");
  EXPECT_EQ(placed(placer), "cpu:0");
}

TEST(Placer, ATaskAloneMayChooseNothing) {
  Placer in_replicas({}, two_cpus_and_two_gpus(), NameWithoutDevice::kNoChoice);
  const auto task = with_device("/job:worker/task:1");
  EXPECT_EQ(in_replicas.place(kConvolution), std::nullopt);
  const auto device = with_device("gpu:1");
  EXPECT_EQ(in_replicas.place(kConvolution)->name.to_string(), "gpu:1");
}

TEST(Placer, RefusesMalformedNames) {
  Placer placer({}, two_cpus_and_two_gpus());
  EXPECT_THROW(placer.resolve("tpu:0"), Error);
}

TEST(Placer, FallsBackToTheFirstCpuAndLogsItOncePerDevice) {
  Placer placer({}, two_cpus_and_two_gpus());
  const LogCapture log;
  for (int step = 0; step < 3; ++step) {
    const auto scope = with_device("/gpu:5");
    EXPECT_EQ(placed(placer, kWeights), "cpu:0");
    EXPECT_EQ(placed(placer, kConvolution), "cpu:0");
  }
  EXPECT_EQ(placer.resolve("/job:worker/gpu:5").name.to_string(), "cpu:0");
  EXPECT_EQ(placer.resolve("cpu:9").name.to_string(), "cpu:0");
  ASSERT_EQ(log.lines.size(), 2U);
  EXPECT_THAT(log.lines[0], HasSubstr("warning"));
  EXPECT_THAT(log.lines[0], HasSubstr("gpu:5"));
  EXPECT_THAT(log.lines[0], HasSubstr("cpu:0 to cpu:1 and gpu:0 to gpu:1"));
  EXPECT_THAT(log.lines[1], HasSubstr("cpu:9"));
}

TEST(Placer, ListsWhatExistsIfItRefuses) {
  Placer placer({.missing = MissingDevice::kRefuse}, two_cpus_and_two_gpus());
  const LogCapture log;
  const auto scope = with_device("/gpu:5");
  try {
    placer.place(kWeights);
    ADD_FAILURE() << "placed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_EQ(
        std::string(error.what()),
        "There is no device gpu:5 here, where the variable conv1/weights was to go; there are "
        "cpu:0 to cpu:1 and gpu:0 to gpu:1.");
  }
  EXPECT_THAT(placer.lines(), IsEmpty());
  EXPECT_THAT(log.lines, IsEmpty());
}

TEST(Placer, AlwaysHasTheFirstCpu) {
  std::vector<Device> gpus = two_cpus_and_two_gpus();
  gpus.erase(gpus.begin(), gpus.begin() + 2);
  Placer placer({.missing = MissingDevice::kRefuse}, gpus);
  EXPECT_EQ(placer.resolve("cpu:0").torch_device, c10::Device(c10::kCPU));
  EXPECT_EQ(placer.resolve("gpu:1").name.to_string(), "gpu:1");
  EXPECT_THROW(placer.resolve("cpu:1"), Error);
  EXPECT_EQ(Placer().resolve("cpu:0").name.to_string(), "cpu:0") << "this machine's";
}

TEST(Placer, LogsEachThingOnce) {
  std::vector<std::string> written;
  Placer placer({.log = true, .sink = [&](std::string_view line) { written.emplace_back(line); }},
                two_cpus_and_two_gpus());
  for (int step = 0; step < 3; ++step) {
    const auto scope = with_device("/gpu:1");
    placed(placer, kWeights);
    placed(placer, kConvolution);
    placer.record(PlacedKind::kVariable, "conv1/biases", "cpu:0");
  }
  placer.record(PlacedKind::kLayer, "conv1/biases", "cpu:0");  // another kind, the same name
  placer.record(PlacedKind::kVariable, "conv1/weights", "cpu:0");
  EXPECT_THAT(written,
              ElementsAre("conv1/weights: (variable): gpu:1", "conv1/Conv2D: (layer): gpu:1",
                          "conv1/biases: (variable): cpu:0", "conv1/biases: (layer): cpu:0"));
  EXPECT_EQ(placer.lines(), written);
}

TEST(Placer, LogsTheDeviceAfterAFallback) {
  Placer placer({.log = true}, two_cpus_and_two_gpus());
  const LogCapture log;
  const auto scope = with_device("/gpu:5");
  placed(placer);
  ASSERT_EQ(log.lines.size(), 2U);
  EXPECT_EQ(log.lines[1], "info conv1/weights: (variable): cpu:0");
}

TEST(Placer, WritesNothingIfTheLogIsOff) {
  Placer placer({.sink = [](std::string_view) { ADD_FAILURE() << "written"; }},
                two_cpus_and_two_gpus());
  EXPECT_FALSE(placer.logs());
  const auto scope = with_device("/gpu:1");
  EXPECT_EQ(placed(placer), "gpu:1");
  placer.record(PlacedKind::kVariable, "v", "cpu:0");
  EXPECT_THAT(placer.lines(), IsEmpty());
}

TEST(Placer, ServesTowersAtTheSameTime) {
  constexpr int kTowers = 4;
  constexpr int kThings = 200;
  Placer placer({.log = true, .sink = [](std::string_view) {}}, two_cpus_and_two_gpus());
  const LogCapture log;
  std::vector<std::thread> towers;
  for (int tower = 0; tower < kTowers; ++tower) {
    towers.emplace_back([&, tower] {
      const auto scope = with_device(assign_to_device("gpu:7", "cpu:1"));
      for (int i = 0; i < kThings; ++i) {
        placed(placer, {.name = base::str_cat("v", i), .kind = PlacedKind::kVariable});
        placed(placer, {.name = base::str_cat("tower_", tower, "/c", i)});
      }
    });
  }
  for (auto& tower : towers) tower.join();
  EXPECT_EQ(log.lines.size(), 1U) << "one warning of gpu:7 for all towers";
  auto lines = placer.lines();
  ASSERT_EQ(lines.size(), static_cast<std::size_t>(kThings + kTowers * kThings));
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(std::adjacent_find(lines.begin(), lines.end()), lines.end()) << "a line twice";
  EXPECT_TRUE(std::binary_search(lines.begin(), lines.end(), "v7: (variable): cpu:1"));
}

}  // namespace
}  // namespace brigade::device
