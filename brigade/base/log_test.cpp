#include "brigade/base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace brigade::base {
namespace {

using Messages = std::vector<std::pair<LogLevel, std::string>>;

/// Puts the process's log back as it was.
class LogTest : public testing::Test {
 protected:
  LogTest() {
    set_log_sink([this](LogLevel level, std::string_view message) {
      messages_.emplace_back(level, std::string(message));
    });
  }
  ~LogTest() override {
    set_log_sink(nullptr);
    set_log_level(LogLevel::kInfo);
  }
  Messages messages_;
};

TEST_F(LogTest, SinkReceivesLevelAndText) {
  log_info("one");
  log_warning("two {}");
  log_error("three");
  EXPECT_EQ(messages_, (Messages{{LogLevel::kInfo, "one"},
                                 {LogLevel::kWarning, "two {}"},
                                 {LogLevel::kError, "three"}}));
}

TEST_F(LogTest, SeveralPiecesAreOneMessage) {
  log_info("one ", 1);
  log_warning("two ", 2.5, " {}");
  log_error(std::string("three"), '.');
  EXPECT_EQ(messages_, (Messages{{LogLevel::kInfo, "one 1"},
                                 {LogLevel::kWarning, "two 2.5 {}"},
                                 {LogLevel::kError, "three."}}));
}

TEST_F(LogTest, NothingInAMessageActsOnATerminal) {
  log_warning("file '\x1b[2Ja\u202eb\xff' is gone");
  log_info("two\nlines\n  three\n[error] forged");
  const Messages expected = {{LogLevel::kWarning, "file '\\x1b[2Ja\\u202eb\\xff' is gone"},
                             {LogLevel::kInfo, "two\n  lines\n  three\n  [error] forged"}};
  EXPECT_EQ(messages_, expected);
  set_log_sink(nullptr);
  testing::internal::CaptureStderr();
  log_error("\x1b[31mred");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "[error] \\x1b[31mred\n");
}

TEST_F(LogTest, LevelDropsWhatMattersLess) {
  set_log_level(LogLevel::kError);
  log_info("one");
  log_warning("two");
  log_error("three");
  set_log_level(LogLevel::kOff);
  log_error("four");
  EXPECT_EQ(messages_, (Messages{{LogLevel::kError, "three"}}));
}

TEST_F(LogTest, SinkIsCalledByOneThreadAtATime) {
  constexpr int kThreads = 4;
  constexpr int kMessages = 200;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([] {
      for (int n = 0; n < kMessages; ++n) log_info("x");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(messages_.size(), static_cast<std::size_t>(kThreads * kMessages));
}

TEST_F(LogTest, DefaultWritesOneLineToStandardError) {
  set_log_sink(nullptr);
  testing::internal::CaptureStderr();
  log_warning("slow {} %s");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "[warning] slow {} %s\n");
  EXPECT_TRUE(messages_.empty());
}

}  // namespace
}  // namespace brigade::base
