#include "brigade/summary/event_file_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/base/testing/manual_clock.h"
#include "brigade/io/testing/faulty_file_system.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/summary/event_file_reader.h"

namespace brigade::summary {
namespace {

using base::testing::code_of;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::MatchesRegex;

Event scalar(std::int64_t step) {
  return {1, step, Summary{{{"loss", Scalar{static_cast<float>(step)}}}}};
}

class EventFileWriterTest : public testing::Test {
 protected:
  EventFileWriterTest() { clock_.advance(std::chrono::seconds(1234)); }

  EventFileWriter writer(EventFileOptions options = {}) {
    return EventFileWriter(files_, "/run/logs", clock_, std::move(options));
  }
  std::vector<Event> events(const io::Path& path) const {
    EventFileReader reader(*memory_, path);
    std::vector<Event> found;
    while (auto event = reader.next()) found.push_back(*std::move(event));
    EXPECT_FALSE(reader.is_cut_short());
    return found;
  }
  std::vector<std::int64_t> steps(const io::Path& path) const {
    std::vector<std::int64_t> found;
    for (const Event& event : events(path)) {
      if (std::holds_alternative<Summary>(event.content)) found.push_back(event.step);
    }
    return found;
  }

  base::ManualClock clock_;
  std::shared_ptr<io::MemoryFileSystem> memory_ = std::make_shared<io::MemoryFileSystem>();
  std::shared_ptr<io::FaultyFileSystem> files_ = std::make_shared<io::FaultyFileSystem>(memory_);
};

TEST_F(EventFileWriterTest, BeginsTheFileWithItsVersion) {
  const EventFileWriter events_file = writer();
  EXPECT_THAT(events_file.path().string(),
              MatchesRegex("/run/logs/events\\.out\\.tfevents\\.0000001234\\..+\\.[0-9]+\\.0"));
  EXPECT_EQ(events(events_file.path()),
            (std::vector<Event>{{1234, 0, FileVersion{"brain.Event:2"}}}));
}

TEST_F(EventFileWriterTest, EachWriterHasItsOwnFile) {
  const EventFileWriter first = writer({.suffix = ".v2"});
  const EventFileWriter second = writer({.suffix = ".v2"});
  EXPECT_THAT(first.path().string(), testing::EndsWith(".0.v2"));
  EXPECT_THAT(second.path().string(), testing::EndsWith(".1.v2"));
  EXPECT_EQ(event_files(*memory_, "/run/logs").size(), 2u);
}

TEST_F(EventFileWriterTest, FlushPutsEverythingIntoTheFile) {
  EventFileWriter events_file = writer({.flush_every = std::chrono::hours(1)});
  std::vector<std::int64_t> expected;
  for (std::int64_t step = 0; step < 100; ++step) {
    events_file.add(scalar(step));
    expected.push_back(step);
  }
  events_file.flush();
  EXPECT_EQ(steps(events_file.path()), expected);
}

TEST_F(EventFileWriterTest, FlushesByItselfAfterAWhile) {
  EventFileWriter events_file = writer({.flush_every = milliseconds(10)});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (std::int64_t step = 1; step <= 2; ++step) {
    events_file.add(scalar(step));
    while (steps(events_file.path()).size() < static_cast<std::size_t>(step)) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
}

TEST_F(EventFileWriterTest, ClosingFlushesAndMayBeRepeated) {
  EventFileWriter events_file = writer();
  events_file.add(scalar(1));
  events_file.close();
  events_file.close();
  EXPECT_EQ(steps(events_file.path()), std::vector<std::int64_t>{1});
  EXPECT_EQ(code_of([&] { events_file.add(scalar(2)); }), ErrorCode::kFailedPrecondition);
}

TEST_F(EventFileWriterTest, DestructionFlushes) {
  io::Path path;
  {
    EventFileWriter events_file = writer();
    path = events_file.path();
    events_file.add(scalar(1));
  }
  EXPECT_EQ(steps(path), std::vector<std::int64_t>{1});
}

TEST_F(EventFileWriterTest, ManyThreadsThroughASmallQueueLoseNothing) {
  constexpr std::int64_t kThreads = 4;
  constexpr std::int64_t kEvents = 200;
  EventFileWriter events_file = writer({.queue_events = 3});
  std::vector<std::thread> threads;
  for (std::int64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::int64_t i = 0; i < kEvents; ++i) events_file.add(scalar(thread * kEvents + i));
      events_file.flush();
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::int64_t> last(kThreads, -1);
  const std::vector<std::int64_t> found = steps(events_file.path());
  EXPECT_EQ(found.size(), static_cast<std::size_t>(kThreads * kEvents));
  for (const std::int64_t step : found) {
    std::int64_t& before = last[static_cast<std::size_t>(step / kEvents)];
    EXPECT_EQ(step % kEvents, before + 1);  // each thread's events in its order
    before = step % kEvents;
  }
}

TEST_F(EventFileWriterTest, AFailedWriteSurfacesAtEveryLaterCall) {
  EventFileWriter events_file = writer();
  events_file.add(scalar(1));
  events_file.flush();
  files_->inject({.code = ErrorCode::kResourceExhausted});
  events_file.add(scalar(2));
  EXPECT_EQ(code_of([&] { events_file.flush(); }), ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of([&] { events_file.add(scalar(3)); }), ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of([&] { events_file.flush(); }), ErrorCode::kResourceExhausted);
  EXPECT_NO_THROW(events_file.close());  // the error was thrown before
  EventFileReader reader(*memory_, events_file.path());
  while (auto event = reader.next()) EXPECT_LE(event->step, 1);
  EXPECT_TRUE(reader.is_cut_short());  // the torn write, and nothing after it
}

TEST_F(EventFileWriterTest, CloseThrowsAFailureThatWasNotThrownBefore) {
  EventFileWriter events_file = writer({.flush_every = std::chrono::hours(1)});
  events_file.add(scalar(1));
  files_->inject({.code = ErrorCode::kDataLoss});
  EXPECT_EQ(code_of([&] { events_file.close(); }), ErrorCode::kDataLoss);
  EXPECT_NO_THROW(events_file.close());
}

TEST_F(EventFileWriterTest, DestructionLogsAFailure) {
  std::string logged;
  base::set_log_sink([&](base::LogLevel, std::string_view text) { logged = text; });
  {
    EventFileWriter events_file = writer({.flush_every = std::chrono::hours(1)});
    events_file.add(scalar(1));
    files_->inject({});
  }
  base::set_log_sink({});
  EXPECT_THAT(logged, HasSubstr("are lost"));
}

TEST_F(EventFileWriterTest, FailsImmediatelyIfTheFileCannotBeCreated) {
  files_->inject({.after = 1, .code = ErrorCode::kPermissionDenied});
  EXPECT_EQ(code_of([&] { writer(); }), ErrorCode::kPermissionDenied);
}

TEST_F(EventFileWriterTest, FlushedEventsSurviveAMachineCrashIfRequested) {
  memory_->sync_directory("/");
  EventFileWriter events_file = writer({.durability = Durability::kMachine});
  events_file.add(scalar(1));
  events_file.flush();
  memory_->drop_unsynced();
  EXPECT_EQ(steps(events_file.path()), std::vector<std::int64_t>{1});
}

TEST_F(EventFileWriterTest, RefusesInvalidOptions) {
  for (const EventFileOptions& options :
       {EventFileOptions{.flush_every = milliseconds(0)}, EventFileOptions{.queue_events = 0},
        EventFileOptions{.queue_bytes = 0}, EventFileOptions{.suffix = "/x"}}) {
    EXPECT_EQ(code_of([&] { writer(options); }), ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(code_of([&] { EventFileWriter(nullptr, "/run", clock_); }),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::summary
