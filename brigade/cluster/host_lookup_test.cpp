#include "brigade/cluster/host_lookup.h"

#include <gtest/gtest.h>

#include <future>

#include "brigade/base/error.h"

namespace brigade::cluster {
namespace {

using std::chrono::milliseconds;

TEST(SourceAddress, IsNoneWhereOnlyLoopbackLeads) {
  EXPECT_EQ(source_address("127.0.0.1"), std::nullopt);
  EXPECT_EQ(source_address("::1"), std::nullopt);
  const auto of_this_machine = [](const std::string&) {
    return std::vector<std::string>{"127.0.1.1"};  // as /etc/hosts has a clone's own name
  };
  EXPECT_EQ(source_address("clone", milliseconds(1000), of_this_machine), std::nullopt);
}

TEST(SourceAddress, OfAnUnknownNameIsNone) {
  const auto unknown = [](const std::string&) -> std::vector<std::string> {
    throw Error(ErrorCode::kNotFound, "nobody");
  };
  EXPECT_EQ(source_address("nowhere", milliseconds(1000), unknown), std::nullopt);
}

TEST(SourceAddress, DoesNotWaitForALookUpThatHangs) {
  std::promise<void> is_over;
  const auto hangs = [over = is_over.get_future().share()](const std::string&) {
    over.wait();
    return std::vector<std::string>();
  };
  EXPECT_EQ(source_address("slow", milliseconds(10), hangs), std::nullopt);
  is_over.set_value();
}

}  // namespace
}  // namespace brigade::cluster
