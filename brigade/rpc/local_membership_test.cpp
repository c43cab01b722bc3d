#include <gtest/gtest.h>

#include <thread>

#include "brigade/base/error.h"
#include "brigade/rpc/remote.h"

namespace brigade::rpc {
namespace {

using std::chrono::milliseconds;

TEST(LocalMembership, IsAClusterOfOne) {
  const auto alone = make_local_membership({0, {"chief", 0}, "here", 7}, 3);
  EXPECT_EQ(alone->members().size(), 1u);
  EXPECT_EQ(alone->self().task.job, "chief");
  EXPECT_EQ(alone->generation(), 3);
  alone->set("key", "value");
  EXPECT_EQ(alone->get("key", milliseconds(0)), "value");
  EXPECT_EQ(alone->add("count", 2), 2);
  EXPECT_EQ(alone->add("count", 2), 4);
  alone->barrier("end", milliseconds(0));
  EXPECT_FALSE(alone->lost());
}

TEST(LocalMembership, GetEndsAtItsDeadline) {
  const auto alone = make_local_membership({}, 0);
  EXPECT_THROW(alone->get("key", milliseconds(1)), Error);
}

TEST(LocalMembership, ThreadsExchangeValues) {
  const auto alone = make_local_membership({}, 0);
  std::jthread setter([&] { alone->set("key", "value"); });
  EXPECT_EQ(alone->get("key", std::chrono::seconds(10)), "value");
}

}  // namespace
}  // namespace brigade::rpc
