#include "brigade/device/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/log.h"

namespace brigade::device {
namespace {

using machine::CoreSet;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The warnings logged while it exists.
class Warnings {
 public:
  Warnings() {
    base::set_log_sink([texts = texts_](base::LogLevel level, std::string_view text) {
      if (level == base::LogLevel::kWarning) texts->emplace_back(text);
    });
  }
  ~Warnings() { base::set_log_sink({}); }
  const std::vector<std::string>& texts() const { return *texts_; }

 private:
  std::shared_ptr<std::vector<std::string>> texts_ = std::make_shared<std::vector<std::string>>();
};

// Two physical cores of two hardware threads each.
Hardware four_cores(int cards = 0, std::optional<double> limit = std::nullopt) {
  return {.topology = {.processor = "test",
                       .cores = CoreSet({0, 1, 2, 3}),
                       .physical_cores = {CoreSet({0, 1}), CoreSet({2, 3})},
                       .cpu_limit = limit},
          .gpu_cards = cards};
}

std::vector<std::string> names_of(const std::vector<Device>& devices) {
  std::vector<std::string> names;
  for (const auto& device : devices) names.push_back(device.name.to_string());
  return names;
}

template <class Call>
void expect_error(ErrorCode code, ::testing::Matcher<std::string> message, Call call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(std::string(error.what()), message);
  }
}

TEST(AvailableDevices, FillsTheUsableCores) {
  const auto devices = available_devices({}, four_cores());
  EXPECT_EQ(names_of(devices), (std::vector<std::string>{"cpu:0", "cpu:1", "cpu:2", "cpu:3"}));
  EXPECT_EQ(devices[0].cores, CoreSet({0}));
  EXPECT_EQ(devices[1].cores, CoreSet({2})) << "the second replica gets its own physical core";
  EXPECT_EQ(devices[1].threads, 1);
  EXPECT_TRUE(devices[1].torch_device.is_cpu());
}

TEST(AvailableDevices, GivesEachCpuItsThreads) {
  const auto devices = available_devices({.threads_per_cpu = 2}, four_cores());
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].threads, 2);
  EXPECT_EQ(devices[0].cores.size(), 2U);
  EXPECT_TRUE(devices[0].cores.intersection(devices[1].cores).empty());
  EXPECT_THROW(available_devices({.threads_per_cpu = 8}, four_cores()), Error);
}

TEST(AvailableDevices, CountsTheTimeLimitAndThenPinsNothing) {
  const auto devices = available_devices({}, four_cores(0, 2.5));
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_TRUE(devices[0].cores.empty());
}

TEST(AvailableDevices, DividesCards) {
  const auto devices =
      available_devices({.logical_cpus = 1, .logical_gpus_per_card = 2}, four_cores(2));
  EXPECT_EQ(names_of(devices),
            (std::vector<std::string>{"cpu:0", "gpu:0", "gpu:1", "gpu:2", "gpu:3"}));
  EXPECT_EQ(devices[2].torch_device, c10::Device("cuda:0"));
  EXPECT_EQ(devices[3].torch_device, c10::Device("cuda:1"));
  EXPECT_EQ(devices[3].logical_index, 2);
}

TEST(AvailableDevices, RefusesNonsense) {
  for (const DiscoveryOptions& options :
       {DiscoveryOptions{.logical_cpus = 0}, DiscoveryOptions{.threads_per_cpu = 0},
        DiscoveryOptions{.logical_gpus_per_card = -1}}) {
    expect_error(ErrorCode::kInvalidArgument, HasSubstr("at least 1"),
                 [&] { available_devices(options, four_cores()); });
  }
}

TEST(AvailableDevices, WarnsOfMoreCpusThanCoresUnlessAllowed) {
  for (const bool is_allowed : {false, true}) {
    const Warnings warnings;
    const auto devices =
        available_devices({.logical_cpus = 5, .allow_oversubscription = is_allowed}, four_cores());
    if (is_allowed) {
      EXPECT_THAT(warnings.texts(), IsEmpty());
    } else {
      EXPECT_THAT(warnings.texts(), ElementsAre(HasSubstr("5 logical CPUs share 4 cores")));
    }
    ASSERT_EQ(devices.size(), 5U);
    for (const auto& device : devices)
      EXPECT_TRUE(device.cores.empty()) << "who shares cores is not pinned";
  }
}

TEST(AvailableDevices, RefusesMoreThreadsThanCoresUnlessAllowed) {
  expect_error(ErrorCode::kInvalidArgument,
               AllOf(HasSubstr("5 threads on 4 cores"), HasSubstr("allow oversubscription")),
               [] { available_devices({.threads_per_cpu = 5}, four_cores()); });
  const auto devices =
      available_devices({.threads_per_cpu = 5, .allow_oversubscription = true}, four_cores());
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0].threads, 5);
}

TEST(AvailableDevices, FindsThisMachine) {
  const auto devices = available_devices();
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices[0].name.to_string(), "cpu:0");
  EXPECT_EQ(available_gpus().size(), static_cast<std::size_t>(discover_hardware().gpu_cards));
}

TEST(ResolveDevices, KeepsTheOrderAndReadsEverySpelling) {
  const auto devices = resolve_devices({"/device:CPU:1", "cuda:0", "cpu:0"}, {}, four_cores(1));
  EXPECT_EQ(names_of(devices), (std::vector<std::string>{"cpu:1", "gpu:0", "cpu:0"}));
}

TEST(ResolveDevices, RefusesADeviceNamedTwiceHoweverSpelt) {
  expect_error(ErrorCode::kInvalidArgument, HasSubstr("Device cpu:0 is named twice;"), [] {
    resolve_devices({"cpu:0", "cpu:1", "cpu:0"}, {}, four_cores());
  });
  expect_error(
      ErrorCode::kInvalidArgument,
      AllOf(HasSubstr("cpu:0 is named twice"), HasSubstr("as '/device:CPU:0' and as 'cpu:0'")), [] {
        resolve_devices({"/device:CPU:0", "cpu:0"}, {}, four_cores());
      });
}

TEST(ResolveDevices, ListsWhatExistsWhenADeviceDoesNot) {
  expect_error(ErrorCode::kNotFound,
               AllOf(HasSubstr("no device gpu:0"), HasSubstr("cpu:0 to cpu:3 and no gpu")), [] {
                 resolve_devices({"cpu:0", "gpu:0"}, {}, four_cores());
               });
  expect_error(ErrorCode::kNotFound,
               AllOf(HasSubstr("no device gpu:2"), HasSubstr("gpu:0 to gpu:1")),
               [] { resolve_devices({"cuda:2"}, {}, four_cores(2)); });
  expect_error(ErrorCode::kNotFound, HasSubstr("cpu:0 and no gpu"),
               [] { resolve_devices({"cpu:1"}, {.logical_cpus = 1}, four_cores()); });
}

TEST(ResolveDevices, WarnsOnceOfMoreCpusThanCores) {
  const Warnings warnings;
  const std::vector<std::string> names = {"cpu:0", "cpu:1", "cpu:2", "cpu:3", "cpu:4"};
  const auto devices = resolve_devices(names, {}, four_cores());
  EXPECT_EQ(names_of(devices), names);
  for (const auto& device : devices) EXPECT_TRUE(device.cores.empty());
  EXPECT_EQ(resolve_devices({"cpu:0", "cpu:1"}, {.threads_per_cpu = 4}, four_cores()).size(), 2U);
  EXPECT_THAT(warnings.texts(),
              ElementsAre(HasSubstr("5 logical CPUs share 4 cores"),
                          HasSubstr("2 logical CPUs of 4 threads each share 4 cores")));
}

TEST(ResolveDevices, MakesAsManyCpusAsTheNamesNeed) {
  expect_error(ErrorCode::kInvalidArgument,
               AllOf(HasSubstr("cpu:4 is beyond"), HasSubstr("only 2 CPUs are named"),
                     HasSubstr("allow oversubscription")),
               [] {
                 resolve_devices({"cpu:0", "cpu:4"}, {}, four_cores());
               });
  expect_error(ErrorCode::kInvalidArgument, HasSubstr("allow oversubscription"), [] {
    resolve_devices({"cpu:0", "cpu:1", "cpu:2", "cpu:3", "cpu:5"}, {}, four_cores());
  });
  const auto devices =
      resolve_devices({"cpu:0", "cpu:4"}, {.allow_oversubscription = true}, four_cores());
  EXPECT_EQ(names_of(devices), (std::vector<std::string>{"cpu:0", "cpu:4"}));
  EXPECT_TRUE(devices[0].cores.empty());
  const auto fits = resolve_devices({"cpu:0"}, {.allow_oversubscription = true}, four_cores());
  EXPECT_EQ(fits[0].cores, CoreSet({0})) << "what fits is pinned, allowed or not";
}

TEST(ResolveDevices, RefusesTasksAndNothing) {
  expect_error(ErrorCode::kInvalidArgument, HasSubstr("cluster"),
               [] { resolve_devices({"/job:worker/task:0/cpu:0"}, {}, four_cores()); });
  expect_error(ErrorCode::kInvalidArgument, HasSubstr("at least one"),
               [] { resolve_devices({}, {}, four_cores()); });
  expect_error(ErrorCode::kInvalidArgument, HasSubstr("'tpu:0'"),
               [] { resolve_devices({"tpu:0"}, {}, four_cores()); });
  expect_error(ErrorCode::kNotFound, HasSubstr("cpu:2147483647"), [] {
    resolve_devices({"cpu:2147483647"}, {.allow_oversubscription = true}, four_cores());
  });
}

TEST(ListDevices, GroupsWhatIsInARow) {
  const auto list = [](const std::vector<std::string>& names) {
    std::vector<Device> devices;
    for (const auto& name : names) devices.emplace_back().name = machine::DeviceName::parse(name);
    return list_devices(devices);
  };
  EXPECT_EQ(list({}), "no cpu and no gpu");
  EXPECT_EQ(list({"cpu:0"}), "cpu:0 and no gpu");
  EXPECT_EQ(list({"cpu:1", "cpu:0", "gpu:2", "gpu:4", "gpu:0", "gpu:5", "gpu:6"}),
            "cpu:0 to cpu:1 and gpu:0, gpu:2, gpu:4 to gpu:6");
}

TEST(Device, KnowsLogicalGpusOfOneCard) {
  Device cpu;
  Device first;
  first.name.type = machine::DeviceType::kGpu;
  first.torch_device = c10::Device(c10::kCUDA, 0);
  Device second = first;
  second.torch_device = c10::Device(c10::kCUDA, 1);
  EXPECT_FALSE(share_a_card({cpu, cpu}));
  EXPECT_FALSE(share_a_card({first, second}));
  EXPECT_TRUE(share_a_card({first, second, first}));
}

}  // namespace
}  // namespace brigade::device
