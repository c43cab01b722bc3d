#include "brigade/launch/exit_status.h"

#include <gtest/gtest.h>

#include <csignal>

namespace brigade::launch {
namespace {

TEST(ExitStatus, ConvertsTheStatusOfWaitpid) {
  EXPECT_EQ(ExitStatus::of_wait(3 << 8), ExitStatus{.code = 3});
  EXPECT_EQ(ExitStatus::of_wait(SIGKILL), ExitStatus{.signal = SIGKILL});
}

TEST(ExitStatus, HasTheCodeThatShellsReport) {
  EXPECT_EQ(ExitStatus{.code = 3}.as_code(), 3);
  EXPECT_EQ(ExitStatus{.signal = SIGKILL}.as_code(), 137);
}

TEST(ExitStatus, OnlyZeroIsSuccess) {
  EXPECT_TRUE(ExitStatus{.code = 0}.is_success());
  EXPECT_FALSE(ExitStatus{.code = 1}.is_success());
  EXPECT_FALSE(ExitStatus{.signal = SIGTERM}.is_success());
}

TEST(ExitStatus, IsClassifiedForASupervisor) {
  EXPECT_EQ(exit_kind_of({.code = 0}), ExitKind::kDone);
  EXPECT_EQ(exit_kind_of({.code = 75}), ExitKind::kRestartMe);
  EXPECT_EQ(exit_kind_of({.code = 130}), ExitKind::kInterrupted);
  EXPECT_EQ(exit_kind_of({.signal = SIGINT}), ExitKind::kInterrupted);
  EXPECT_EQ(exit_kind_of({.code = 2}), ExitKind::kUsage);
  EXPECT_EQ(exit_kind_of({.code = 1}), ExitKind::kFailed);
  EXPECT_EQ(exit_kind_of({.signal = SIGKILL}), ExitKind::kFailed);
}

TEST(ExitStatus, DistinguishesALossFromAFault) {
  EXPECT_TRUE(is_lost({.signal = SIGKILL}));
  EXPECT_TRUE(is_lost({.signal = SIGTERM}));
  EXPECT_FALSE(is_lost({.signal = SIGSEGV}));
  EXPECT_FALSE(is_lost({.signal = SIGABRT}));
  EXPECT_FALSE(is_lost({.code = 1}));
}

TEST(ExitStatus, HasHumanReadableText) {
  EXPECT_EQ(to_string(ExitStatus{.code = 1}), "exit code 1");
  EXPECT_EQ(to_string(ExitStatus{.signal = SIGKILL}), "signal 9 (SIGKILL)");
}

}  // namespace
}  // namespace brigade::launch
