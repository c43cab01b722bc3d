#include "brigade/base/shared_segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>

#include "brigade/base/error.h"

namespace brigade::base {
namespace {

TEST(SharedSegment, IsTheSameMemoryInAllProcessesThatOpenIt) {
  const SharedSegment made = SharedSegment::make(10'000);
  const SharedSegment opened = SharedSegment::open(made.handle(), 10'000);
  ASSERT_NE(made.data(), opened.data());
  EXPECT_TRUE(std::all_of(opened.data(), opened.data() + 10'000,
                          [](std::byte byte) { return byte == std::byte{0}; }));
  made.data()[9'999] = std::byte{7};
  EXPECT_EQ(opened.data()[9'999], std::byte{7});
  EXPECT_EQ(opened.handle().descriptor, -1);
}

TEST(SharedSegment, BeginsWhereAHugePageMayIfItIsLong) {
  constexpr std::size_t kBytes = 5'000'000;
  const SharedSegment made = SharedSegment::make(kBytes);
  EXPECT_TRUE(std::all_of(made.data(), made.data() + kBytes,
                          [](std::byte byte) { return byte == std::byte{0}; }));
  made.data()[kBytes - 1] = std::byte{7};
  const SharedSegment opened = SharedSegment::open(made.handle(), kBytes);
  EXPECT_EQ(opened.data()[kBytes - 1], std::byte{7});
  for (const SharedSegment* each : {&made, &opened})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(each->data()) % (std::size_t{2} << 20), 0u);
}

TEST(SharedSegment, StaysMappedAndCannotBeOpenedOnceItsDescriptorIsClosed) {
  SharedSegment made = SharedSegment::make(100);
  const SegmentHandle handle = made.handle();
  made.close_descriptor();
  made.data()[0] = std::byte{1};
  EXPECT_THROW(SharedSegment::open(handle, 100), Error);
}

TEST(SharedSegment, OfAnotherSizeIsRefused) {
  const SharedSegment made = SharedSegment::make(100);
  EXPECT_THROW(SharedSegment::open(made.handle(), 1000), Error);
  EXPECT_THROW(SharedSegment::open(made.handle(), ~std::size_t{0} - 62), Error);
}

ErrorCode code_of_opening(const SegmentHandle& handle, std::size_t bytes) {
  try {
    SharedSegment::open(handle, bytes);
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

TEST(SharedSegment, OfTheSameNumbersButAnotherNonceIsNotTouched) {
  // As on a cloned machine: the same process, descriptor and size, and another job's memory.
  const SharedSegment meant = SharedSegment::make(100);
  const SharedSegment there = SharedSegment::make(100);
  std::fill_n(there.data(), 100, std::byte{3});
  SegmentHandle handle = there.handle();
  handle.nonce = meant.handle().nonce;
  EXPECT_EQ(code_of_opening(handle, 100), ErrorCode::kUnavailable);
  EXPECT_TRUE(std::all_of(there.data(), there.data() + 100,
                          [](std::byte byte) { return byte == std::byte{3}; }));
  EXPECT_NE(meant.handle().nonce, there.handle().nonce);
}

TEST(SharedSegment, AFileOfAnotherKindIsRefusedWithoutBlocking) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  for (const int end : pipe)
    EXPECT_EQ(code_of_opening({.pid = getpid(), .descriptor = end}, 100), ErrorCode::kUnavailable);
  for (const int end : pipe) ::close(end);
}

TEST(SharedSegment, NobodyCanChangeItsSize) {
  const SharedSegment made = SharedSegment::make(10'000);
  EXPECT_EQ(made.size(), 10'000u);
  const int descriptor = made.handle().descriptor;
  EXPECT_NE(::ftruncate(descriptor, 100), 0);
  EXPECT_NE(::ftruncate(descriptor, 100'000), 0);
  EXPECT_NE(::fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(SharedSegment, MemoryOfTheSameContentWithoutSealsIsRefused) {
  // Another program's, which could shrink it while it is read.
  const SharedSegment made = SharedSegment::make(100);
  const std::size_t total = 128 + sizeof(SegmentHandle::Nonce);
  const FileDescriptor other(::memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_TRUE(other.is_open());
  ASSERT_EQ(::pwrite(other.number(), made.data(), total, 0), static_cast<ssize_t>(total));
  SegmentHandle handle = made.handle();
  handle.descriptor = other.number();
  EXPECT_EQ(code_of_opening(handle, 100), ErrorCode::kUnavailable);
  ASSERT_EQ(::fcntl(other.number(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_EQ(code_of_opening(handle, 100), ErrorCode::kInternal) << "opened: it proves the nonce";
}

/// Makes a segment, tells its handle, and waits for its end.
[[noreturn]] void make_and_wait(int to_parent) {
  ::alarm(20);  // whatever becomes of the test
  try {
    const SharedSegment made = SharedSegment::make(10'000);
    std::fill_n(made.data(), 10'000, std::byte{5});
    const SegmentHandle handle = made.handle();
    if (::write(to_parent, &handle, sizeof handle) == static_cast<ssize_t>(sizeof handle))
      ::pause();
  } catch (const Error&) {
  }
  ::_exit(1);
}

TEST(SharedSegment, OutlivesItsKilledCreatorForWhoeverHasItAndNobodyElse) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  if (child == 0) make_and_wait(pipe[1]);
  ::close(pipe[1]);
  SegmentHandle handle;
  ASSERT_EQ(::read(pipe[0], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  ::close(pipe[0]);
  EXPECT_EQ(handle.pid, child);
  const SharedSegment opened = SharedSegment::open(handle, 10'000);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(opened.data()[9'999], std::byte{5});
  EXPECT_EQ(code_of_opening(handle, 10'000), ErrorCode::kUnavailable) << "it has no name";
}

TEST(SharedSegment, MovesItsMemory) {
  SharedSegment first = SharedSegment::make(100);
  std::byte* const data = first.data();
  const SharedSegment second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move)
}

}  // namespace
}  // namespace brigade::base
