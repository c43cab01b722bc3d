#include "brigade/base/fork_detector.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace brigade::base {
namespace {

/// The exit status of a child that exits with what `code` returns.
template <class Code>
int status_of_child(const Code& code) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(code());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST(ForkDetector, TellsAChildFromTheProcessThatMadeIt) {
  const ForkDetector detector;
  EXPECT_FALSE(detector.is_in_child());
  EXPECT_EQ(status_of_child([&] { return detector.is_in_child() ? 1 : 0; }), 1);
  EXPECT_FALSE(detector.is_in_child()) << "the child's page is its own";
}

TEST(ForkDetector, OneThatAChildMakesIsTheChilds) {
  EXPECT_EQ(status_of_child([] {
              const ForkDetector detector;
              if (detector.is_in_child()) return 2;
              return status_of_child([&] { return detector.is_in_child() ? 1 : 0; });
            }),
            1);
}

}  // namespace
}  // namespace brigade::base
