#include "brigade/launch/output_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "brigade/launch/descriptors.h"

namespace brigade::launch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kWriteLimit{60};

/// What comes out of the pipe until so many bytes have come, or nobody can write any more.
std::string read_bytes(const base::FileDescriptor& from, std::size_t most = std::string::npos) {
  std::string text;
  char piece[4096];
  while (text.size() < most) {
    pollfd one{.fd = from.number(), .events = POLLIN, .revents = 0};
    if (::poll(&one, 1, std::chrono::milliseconds(kWriteLimit).count()) != 1) break;
    const ssize_t count = ::read(from.number(), piece, sizeof(piece));
    if (count <= 0) break;
    text.append(piece, static_cast<std::size_t>(count));
  }
  return text;
}

std::string lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "line " + std::to_string(i) + "\n";
  return text;
}

TEST(OutputWriter, WritesAllInOrder) {
  Pipe pipe = make_pipe();
  OutputWriter writer(pipe.write.number());
  for (int i = 0; i < 100; ++i) writer.write("line " + std::to_string(i) + "\n");
  writer.finish(kWriteLimit);
  pipe.write.reset();
  EXPECT_EQ(read_bytes(pipe.read), lines(100));
  EXPECT_EQ(writer.dropped_lines(), 0);
  EXPECT_FALSE(writer.error());
}

TEST(OutputWriter, DropsAndCountsWhatDoesNotFitAndNeverBlocks) {
  Pipe pipe = make_pipe();  // of 64 KiB, which nobody reads
  OutputWriter writer(pipe.write.number(), {.capacity = 10'000});
  constexpr int kLines = 100'000;
  for (int i = 0; i < kLines; ++i) writer.write("0123456789\n");
  EXPECT_GT(writer.dropped_lines(), 0);
  writer.finish(milliseconds(1));
  const std::int64_t dropped = writer.dropped_lines();
  pipe.write.reset();
  const std::string read = read_bytes(pipe.read);
  EXPECT_EQ(std::count(read.begin(), read.end(), '\n') + dropped, kLines);
}

TEST(OutputWriter, ContinuesWhenTheReaderReadsAgain) {
  Pipe pipe = make_pipe();
  OutputWriter writer(pipe.write.number(), {.capacity = 10'000});
  while (writer.dropped_lines() == 0) writer.write("0123456789\n");
  EXPECT_GT(read_bytes(pipe.read, 5000).size(), 0U);
  const auto end = Clock::now() + kWriteLimit;
  while (Clock::now() < end) {
    const std::int64_t before = writer.dropped_lines();
    writer.write("again\n");
    if (writer.dropped_lines() == before) break;
  }
  writer.finish(kWriteLimit);
  pipe.write.reset();
  EXPECT_TRUE(read_bytes(pipe.read).ends_with("again\n"));
}

TEST(OutputWriter, IsBusyWhileTheQueueIsFullUnlessTheReaderStalls) {
  const Pipe pipe = make_pipe();
  OutputWriter patient(pipe.write.number(), {.capacity = 10'000, .stall = std::chrono::hours(1)});
  EXPECT_FALSE(patient.is_busy());
  while (patient.dropped_lines() == 0) patient.write("0123456789\n");
  EXPECT_TRUE(patient.is_busy());
  const Pipe other = make_pipe();
  OutputWriter hasty(other.write.number(), {.capacity = 10'000, .stall = milliseconds(20)});
  while (hasty.dropped_lines() == 0) hasty.write("0123456789\n");
  const auto end = Clock::now() + kWriteLimit;
  while (hasty.is_busy() && Clock::now() < end) ::poll(nullptr, 0, 1);
  EXPECT_FALSE(hasty.is_busy());
}

TEST(OutputWriter, FinishWaitsForAReaderThatReads) {
  Pipe pipe = make_pipe();
  OutputWriter writer(pipe.write.number());
  const std::string text = lines(100'000);
  for (std::size_t at = 0; at < text.size(); at += 8192) writer.write(text.substr(at, 8192));
  std::string read;
  std::thread reader([&] { read = read_bytes(pipe.read); });
  writer.finish(kWriteLimit);
  pipe.write.reset();
  reader.join();
  EXPECT_EQ(read, text);
}

TEST(OutputWriter, ReportsAFailedWrite) {
  const base::FileDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full.is_open());
  OutputWriter writer(full.number());
  writer.write("one\ntwo\n");
  writer.write("half");
  writer.finish(kWriteLimit);
  EXPECT_EQ(writer.error(), ENOSPC);
  EXPECT_EQ(writer.failed_lines(), 3);
  EXPECT_EQ(writer.dropped_lines(), 0);
}

}  // namespace
}  // namespace brigade::launch
