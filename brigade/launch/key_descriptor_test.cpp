#include "brigade/launch/key_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "brigade/base/strings.h"

namespace brigade::launch {
namespace {

std::string path_of(const FileDescriptor& file) {
  return base::str_cat("/proc/self/fd/", file.number());
}

TEST(KeyDescriptor, CanBeReadRepeatedly) {
  const auto key = cluster::ClusterKey::generate();
  const FileDescriptor file = make_key_descriptor(key);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(cluster::ClusterKey::read(path_of(file)).to_hex(), key.to_hex());
}

TEST(KeyDescriptor, CannotBeChangedAndClosesAtExec) {
  const FileDescriptor file = make_key_descriptor(cluster::ClusterKey::generate());
  EXPECT_EQ(::write(file.number(), "x", 1), -1);
  EXPECT_EQ(::ftruncate(file.number(), 0), -1);
  EXPECT_NE(::fcntl(file.number(), F_GETFD) & FD_CLOEXEC, 0);
}

}  // namespace
}  // namespace brigade::launch
