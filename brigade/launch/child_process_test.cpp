#include "brigade/launch/child_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/launch/process_tree.h"

namespace brigade::launch {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLimit{20};

std::string read_until(const base::FileDescriptor& pipe,
                       const std::function<bool(const std::string&)>& is_enough) {
  std::string text;
  const auto deadline = Clock::now() + kLimit;
  while (Clock::now() < deadline) {
    char piece[1024];
    const ssize_t count = ::read(pipe.number(), piece, sizeof(piece));
    if (count == 0) break;
    if (count > 0) text.append(piece, static_cast<std::size_t>(count));
    if (is_enough(text)) break;
    pollfd wait{.fd = pipe.number(), .events = POLLIN, .revents = 0};
    ::poll(&wait, 1, 100);
  }
  return text;
}

std::string read_some(const base::FileDescriptor& pipe) {
  return read_until(pipe,
                    [](const std::string& text) { return text.find('\n') != std::string::npos; });
}

std::string read_all(const base::FileDescriptor& pipe) {
  return read_until(pipe, [](const std::string&) { return false; });
}

std::optional<ExitStatus> end_of(ChildProcess& process) {
  const auto deadline = Clock::now() + kLimit;
  while (Clock::now() < deadline) {
    if (const auto status = process.poll()) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return std::nullopt;
}

bool is_gone(pid_t pid) {
  const auto deadline = Clock::now() + kLimit;
  while (Clock::now() < deadline) {
    if (::kill(pid, 0) != 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

ChildProcess shell(const std::string& script) {
  return ChildProcess({.command = {"/bin/sh", "-c", script}});
}

// Tells its own process number, leaves the session and ignores what can be ignored.
constexpr const char* kStubborn =
    "setsid sh -c 'trap \"\" TERM INT HUP; (trap \"\" TERM; echo $$; exec sleep 1000)' & ";

TEST(ChildProcess, WritesIntoTwoPipesAndEndsWithItsCode) {
  ChildProcess process = shell("echo out; echo err >&2; exit 7");
  EXPECT_EQ(read_some(process.output()), "out\n");
  EXPECT_EQ(read_some(process.errors()), "err\n");
  EXPECT_EQ(end_of(process), ExitStatus{.code = 7});
}

TEST(ChildProcess, EndsBySignalAsItsProgramDid) {
  ChildProcess process = shell("kill -KILL $$");
  EXPECT_EQ(end_of(process), ExitStatus{.signal = SIGKILL});
}

TEST(ChildProcess, ForwardsSignals) {
  ChildProcess process = shell("trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done");
  EXPECT_EQ(read_some(process.output()), "ready\n");
  process.signal(SIGTERM);
  EXPECT_EQ(end_of(process), ExitStatus{.code = 5});
}

TEST(ChildProcess, KnowsWhetherASignalHasReachedItsProgram) {
  ChildProcess process = shell("trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done");
  ChildProcess late = shell("exit 6");
  EXPECT_EQ(read_some(process.output()), "ready\n");
  EXPECT_FALSE(process.was_signaled());
  process.signal(SIGTERM);
  EXPECT_EQ(end_of(process), ExitStatus{.code = 5});
  EXPECT_TRUE(process.was_signaled());
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(late.pid()), &ended, WEXITED | WNOWAIT), 0);
  late.signal(SIGTERM);
  EXPECT_EQ(end_of(late), ExitStatus{.code = 6});
  EXPECT_FALSE(late.was_signaled());
}

TEST(ChildProcess, ChangesTheEnvironment) {
  ::setenv("BRIGADE_TEST_TAKEN_AWAY", "x", 1);
  ChildProcess process({.command = {"/bin/sh", "-c", "echo $A/${BRIGADE_TEST_TAKEN_AWAY-none}"},
                        .environment = {{"A", "b"}, {"BRIGADE_TEST_TAKEN_AWAY", std::nullopt}}});
  EXPECT_EQ(read_some(process.output()), "b/none\n");
  ::unsetenv("BRIGADE_TEST_TAKEN_AWAY");
}

TEST(ChildProcess, GivesItsProgramThreeDescriptorsAndInheritedOnes) {
  std::set<int> expected = {0, 1, 2, 3};  // 3 is the folder that ls reads
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int number = std::stoi(entry.path().filename());
    const int flags = ::fcntl(number, F_GETFD);
    if (number > 3 && flags >= 0 && (flags & FD_CLOEXEC) == 0) expected.insert(number);
  }
  ChildProcess other = shell("sleep 1000");
  ChildProcess process({.command = {"ls", "/proc/self/fd"}});
  std::istringstream lines(read_all(process.output()));
  const std::set<int> found{std::istream_iterator<int>(lines), {}};
  EXPECT_EQ(found, expected);
}

TEST(ChildProcess, PassesItsKeyAsAnAnonymousFile) {
  const auto key = cluster::ClusterKey::generate();
  ChildProcess process(
      {.command = {"/bin/sh", "-c", "cat /proc/self/fd/19; cat /proc/self/fd/19"}, .key = key});
  EXPECT_EQ(read_all(process.output()), key.to_hex() + "\n" + key.to_hex() + "\n");
  ChildProcess without = shell("[ -e /proc/self/fd/19 ] || echo none");
  EXPECT_EQ(read_some(without.output()), "none\n");
}

TEST(ChildProcess, IsPinnedToItsCores) {
  ChildProcess process({.command = {"/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status"},
                        .cores = machine::CoreSet({0})});
  EXPECT_EQ(read_some(process.output()), "Cpus_allowed_list:\t0\n");
}

TEST(ChildProcess, KillsItsGrandchildrenAtItsEnd) {
  ChildProcess process = shell(std::string(kStubborn) + "sleep 0.2");
  const pid_t grandchild = std::stoi(read_some(process.output()));
  EXPECT_EQ(end_of(process), ExitStatus{.code = 0});
  EXPECT_TRUE(is_gone(grandchild));
}

TEST(ChildProcess, IsKilledWithItsDescendantsWhenItsHandleIsDestroyed) {
  pid_t grandchild = 0;
  {
    ChildProcess process =
        shell(std::string(kStubborn) + "trap '' TERM; while :; do sleep 1; done");
    grandchild = std::stoi(read_some(process.output()));
    EXPECT_EQ(::kill(grandchild, 0), 0);
  }
  EXPECT_TRUE(is_gone(grandchild));
}

TEST(ChildProcess, IsKilledWithItsShim) {
  ChildProcess process = shell("echo $$; exec sleep 1000");
  const pid_t program = std::stoi(read_some(process.output()));
  ::kill(process.pid(), SIGKILL);
  EXPECT_EQ(end_of(process), ExitStatus{.signal = SIGKILL});
  EXPECT_TRUE(is_gone(program));
}

TEST(ChildProcess, RefusesFilesThatAreNotExecutable) {
  try {
    ChildProcess({.command = {"/nowhere/program"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), testing::HasSubstr("/nowhere/program"));
  }
}

TEST(Descendants, AreFoundAndSpared) {
  ChildProcess one = shell("sleep 1000 & echo; wait");
  ChildProcess two = shell("sleep 1000 & echo; wait");
  read_some(one.output());
  read_some(two.output());
  EXPECT_THAT(descendants_of(one.pid()), testing::SizeIs(2));
  EXPECT_TRUE(kill_descendants(one.pid(), kLimit, {descendants_of(one.pid()).front()}));
  EXPECT_FALSE(two.poll());
}

}  // namespace
}  // namespace brigade::launch
