#include "brigade/device/backward_threads.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "brigade/device/testing/fake_device.h"
#include "brigade/machine/affinity.h"

namespace brigade::device {
namespace {

using machine::CoreSet;
using testing::FakeDevice;

[[maybe_unused]] const FakeDevice& registered_first = FakeDevice::get();

CoreSet cores_of_backward_thread() {
  CoreSet cores;
  run_on_backward_thread(FakeDevice::device(), [&] { cores = machine::thread_affinity(); });
  return cores;
}

TEST(BackwardThreads, ACardHasItsOwnAndTheCpuHasNone) {
  std::thread::id first;
  std::thread::id second;
  std::thread::id on_cpu;
  run_on_backward_thread(FakeDevice::device(), [&] { first = std::this_thread::get_id(); });
  std::thread([&] {
    run_on_backward_thread(FakeDevice::device(), [&] { second = std::this_thread::get_id(); });
  }).join();
  run_on_backward_thread(c10::Device(c10::kCPU), [&] { on_cpu = std::this_thread::get_id(); });
  EXPECT_EQ(first, second);
  EXPECT_NE(first, std::this_thread::get_id());
  EXPECT_EQ(on_cpu, std::this_thread::get_id());
}

TEST(BackwardThreads, PassOnWhatTheFunctionThrows) {
  EXPECT_THROW(run_on_backward_thread(FakeDevice::device(),
                                      [] { throw std::invalid_argument("not libtorch's"); }),
               std::invalid_argument);
}

TEST(BackwardThreads, RunOnTheCoresOfTheirCardWhoeverCameFirst) {
  const CoreSet usable = machine::thread_affinity();
  if (usable.size() < 2) GTEST_SKIP() << "This process may use one core only.";
  const CoreSet last({usable.cores().back()});
  const std::vector<c10::Device> cards = {FakeDevice::device(), FakeDevice::device()};
  place_backward_threads(cards, usable, [&](c10::Device) { return last; });
  EXPECT_EQ(cores_of_backward_thread(), last);
  EXPECT_EQ(machine::thread_affinity(), usable) << "the calling thread stays where it is";
  place_backward_threads(cards, usable, [&](c10::Device) { return CoreSet({65000}); });
  EXPECT_EQ(cores_of_backward_thread(), usable) << "none of the card's cores is usable";
}

}  // namespace
}  // namespace brigade::device
