#include "brigade/launch/descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "brigade/base/strings.h"

namespace brigade::launch {
namespace {

bool is_known_to_the_system(int number) {
  return ::fcntl(number, F_GETFD) >= 0;
}

TEST(FileDescriptor, ClosesAtItsEndAndMoves) {
  int number = -1;
  {
    base::FileDescriptor first = std::move(make_pipe().read);
    number = first.number();
    base::FileDescriptor second = std::move(first);
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
  for (const base::FileDescriptor* end : {&pipe.read, &pipe.write}) {
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

std::string path_of(const base::FileDescriptor& file) {
  return base::str_cat("/proc/self/fd/", file.number());
}

TEST(KeyDescriptor, CanBeReadRepeatedly) {
  const auto key = cluster::ClusterKey::generate();
  const base::FileDescriptor file = make_key_descriptor(key);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(cluster::ClusterKey::read(path_of(file)).to_hex(), key.to_hex());
}

TEST(KeyDescriptor, CannotBeChangedAndClosesAtExec) {
  const base::FileDescriptor file = make_key_descriptor(cluster::ClusterKey::generate());
  EXPECT_EQ(::write(file.number(), "x", 1), -1);
  EXPECT_EQ(::ftruncate(file.number(), 0), -1);
  EXPECT_NE(::fcntl(file.number(), F_GETFD) & FD_CLOEXEC, 0);
}

}  // namespace
}  // namespace brigade::launch
