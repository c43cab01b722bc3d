#include "brigade/launch/stall_detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace brigade::launch {
namespace {

using std::chrono::seconds;

/// A child that waits, and can be stopped.
class Sleeper {
 public:
  Sleeper() : pid_(::fork()) {
    if (pid_ == 0) {
      for (;;) ::pause();
    }
  }
  ~Sleeper() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  void stop() {
    ::kill(pid_, SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);
  }
  void go_on() {
    ::kill(pid_, SIGCONT);
    ::waitpid(pid_, nullptr, WCONTINUED);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

class StallDetectorTest : public testing::Test {
 protected:
  StallDetectorTest() { stall_detector_.begin(begin_); }
  /// What is found after so many seconds, looked for every second.
  std::optional<std::string> after(int from, int to) {
    std::optional<std::string> found;
    for (int i = from; i <= to; ++i) {
      if (stall_detector_.is_due(begin_ + seconds(i)))
        found = stall_detector_.look(child_.pid(), begin_ + seconds(i));
    }
    return found;
  }

  Sleeper child_;
  StallDetector stall_detector_{seconds(8)};
  const StallDetector::Time begin_ = std::chrono::steady_clock::now();
};

TEST_F(StallDetectorTest, AProcessStoppedForLongIsNamed) {
  EXPECT_EQ(after(1, 20), std::nullopt);
  child_.stop();
  EXPECT_EQ(after(21, 28), std::nullopt);
  EXPECT_THAT(after(29, 29).value_or(""),
              testing::HasSubstr("SIGSTOP, pid " + std::to_string(child_.pid())));
}

TEST_F(StallDetectorTest, ContinuingRestartsTheTimer) {
  child_.stop();
  EXPECT_EQ(after(1, 7), std::nullopt);
  child_.go_on();
  EXPECT_EQ(after(8, 8), std::nullopt);
  child_.stop();
  EXPECT_EQ(after(9, 15), std::nullopt);
}

TEST_F(StallDetectorTest, AProcessThatRunsBetweenTwoChecksIsNotStopped) {
  for (int i = 1; i <= 30; ++i) {
    child_.stop();
    EXPECT_EQ(after(i, i), std::nullopt) << i;
    child_.go_on();
  }
}

TEST_F(StallDetectorTest, AProcessStoppedAfterAllHaveJoinedIsSilent) {
  stall_detector_.on_all_joined();
  child_.stop();
  EXPECT_THAT(after(1, 9).value_or(""),
              testing::HasSubstr("it has not been heard from for 8 s: it is stopped"));
}

TEST_F(StallDetectorTest, TimeWithoutChecksDoesNotCount) {
  child_.stop();
  EXPECT_EQ(after(1, 2), std::nullopt);
  EXPECT_EQ(after(100, 107), std::nullopt);
  EXPECT_TRUE(after(108, 108).has_value());
}

TEST_F(StallDetectorTest, NoProcessIsWatchedAfterTheEnd) {
  child_.stop();
  stall_detector_.end();
  EXPECT_EQ(after(1, 30), std::nullopt);
  EXPECT_EQ(stall_detector_.next_look(), StallDetector::Time::max());
}

}  // namespace
}  // namespace brigade::launch
