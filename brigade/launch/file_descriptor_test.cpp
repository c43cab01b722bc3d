#include "brigade/launch/file_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

namespace brigade::launch {
namespace {

bool is_known_to_the_system(int number) {
  return ::fcntl(number, F_GETFD) >= 0;
}

TEST(FileDescriptor, ClosesAtItsEndAndMoves) {
  int number = -1;
  {
    FileDescriptor first = std::move(make_pipe().read);
    number = first.number();
    FileDescriptor second = std::move(first);
    EXPECT_FALSE(first.is_open());
    EXPECT_TRUE(is_known_to_the_system(number));
  }
  EXPECT_FALSE(is_known_to_the_system(number));
}

TEST(FileDescriptor, ClosesWhatItHadWhenItIsGivenAnother) {
  Pipe pipe = make_pipe();
  const int former = pipe.read.number();
  pipe.read = make_pipe().read;
  EXPECT_FALSE(is_known_to_the_system(former));
}

TEST(FileDescriptor, PipesCloseAtExecAndLeaveLowNumbersAlone) {
  const Pipe pipe = make_pipe();
  for (const FileDescriptor* end : {&pipe.read, &pipe.write}) {
    EXPECT_GE(end->number(), 10);
    EXPECT_NE(::fcntl(end->number(), F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST(FileDescriptor, ReadsCanBeNonBlocking) {
  const Pipe pipe = make_pipe();
  set_non_blocking(pipe.read);
  char byte = 0;
  EXPECT_EQ(::read(pipe.read.number(), &byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
}

}  // namespace
}  // namespace brigade::launch
