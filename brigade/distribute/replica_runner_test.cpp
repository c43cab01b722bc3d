#include "brigade/distribute/replica_runner.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <string>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/machine/topology.h"

namespace brigade::distribute {
namespace {

const ReplicaRunnerOptions kSleepy{.spin = std::chrono::microseconds(0)};

int threads_of_a_new_thread() {
  int threads = 0;
  std::thread([&] { threads = at::get_num_threads(); }).join();
  return threads;
}

/// Restores libtorch's number of threads.
class KeptThreads : public ::testing::Test {
 protected:
  ~KeptThreads() override { at::set_num_threads(before_); }
  int before_ = at::get_num_threads();
};
using ReplicaRunnerThreads = KeptThreads;

TEST(ThreadRunner, NeedsADevice) {
  EXPECT_THROW(ThreadRunner({}), Error);
}

TEST(ThreadRunner, CallsTheBodyOnceForEachReplicaConcurrently) {
  ThreadRunner runner(plain_cpus(3), kSleepy);
  EXPECT_EQ(runner.replicas(), 3);
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> here = 0;
    std::vector<int> calls(3, 0);
    runner.run([&](int replica) {
      ++calls[replica];
      ++here;
      // All must arrive before one may leave: impossible if they ran one after another.
      while (here < 3) std::this_thread::yield();
    });
    ASSERT_EQ(calls, std::vector<int>({1, 1, 1}));
  }
}

TEST(ThreadRunner, ReplicaZeroRunsOnTheCallersThreadAndTheOthersKeepTheirs) {
  ThreadRunner runner(plain_cpus(3), kSleepy);
  std::vector<std::thread::id> first(3);
  std::vector<std::thread::id> second(3);
  runner.run([&](int replica) { first[replica] = std::this_thread::get_id(); });
  runner.run([&](int replica) { second[replica] = std::this_thread::get_id(); });
  EXPECT_EQ(first, second);
  EXPECT_EQ(first[0], std::this_thread::get_id());
  EXPECT_EQ(std::set<std::thread::id>(first.begin(), first.end()).size(), 3u);
}

TEST_F(ReplicaRunnerThreads, EachReplicaHasItsDevicesNumberAndTheCallersIsRestored) {
  at::set_num_threads(3);
  auto devices = plain_cpus(2, 2);
  devices[1].threads = 1;
  ThreadRunner runner(devices, kSleepy);
  EXPECT_EQ(at::get_num_threads(), 3);
  std::vector<int> threads(2);
  runner.run([&](int replica) { threads[replica] = at::get_num_threads(); });
  EXPECT_EQ(threads, std::vector<int>({2, 1}));
  EXPECT_EQ(at::get_num_threads(), 3);
}

TEST_F(ReplicaRunnerThreads, ThreadsStartedLaterHaveTheCallersNumber) {
  at::set_num_threads(3);
  ThreadRunner runner(plain_cpus(2, 1), kSleepy);
  EXPECT_EQ(threads_of_a_new_thread(), 3);
  runner.run([](int) {});
  EXPECT_EQ(threads_of_a_new_thread(), 3);
}

TEST(ThreadRunner, ASlowReplicaIsNamedInTheLog) {
  std::mutex mutex;
  std::string log;
  base::set_log_sink([&](base::LogLevel, std::string_view text) {
    const std::lock_guard lock(mutex);
    log += text;
  });
  const auto warned = [&] {
    const std::lock_guard lock(mutex);
    return log.find("replica 1 ") != std::string::npos;
  };
  {
    ThreadRunner runner(plain_cpus(2), {.spin = std::chrono::microseconds(0),
                                        .stall_warning = std::chrono::milliseconds(5)});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    runner.run([&](int replica) {
      while (replica == 1 && !warned() && std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
    });
  }
  base::set_log_sink({});
  EXPECT_TRUE(warned()) << log;
}

TEST(ThreadRunner, CanBeDestroyedWithoutARun) {
  ThreadRunner runner(plain_cpus(4), kSleepy);
}

TEST(SpinDuration, ReplicasPollOnlyIfEachHasACore) {
  const int cores = device::discover_hardware().topology.usable_cores();
  EXPECT_GT(spin_duration(plain_cpus(1, 1)).count(), 0);
  EXPECT_GT(spin_duration(plain_cpus(cores, 1)).count(), 0);
  EXPECT_EQ(spin_duration(plain_cpus(cores + 1, 1)).count(), 0);
  EXPECT_EQ(spin_duration(plain_cpus(1, cores + 1)).count(), 0);
}

TEST(ReplicaStream, DoesNothingOnCpu) {
  device::Device cpu;
  cpu.name.type = machine::DeviceType::kCpu;
  ReplicaStream stream(cpu);
  stream.fork();
  { const ReplicaStream::Scope scope(stream); }
  EXPECT_NO_THROW(stream.join());
}

}  // namespace
}  // namespace brigade::distribute
