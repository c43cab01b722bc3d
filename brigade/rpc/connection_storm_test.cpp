#include "brigade/rpc/acceptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace brigade::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ConnectionStormDetector, AFewConnectionsAreNotAStorm) {
  ConnectionStormDetector watch("127.0.0.1:7");
  ConnectionStormDetector::TimePoint now{seconds(1000)};
  for (int second = 0; second < 10; ++second, now += seconds(1)) {
    for (int i = 1; i < ConnectionStormDetector::kStorm; ++i) watch.record(now, "127.0.0.1:9");
    EXPECT_FALSE(watch.report(now));
  }
}

TEST(ConnectionStormDetector, ReportsAStormOnceAndItsEnd) {
  ConnectionStormDetector watch("127.0.0.1:7");
  ConnectionStormDetector::TimePoint now{seconds(1000)};
  std::vector<std::string> logged;
  for (int i = 0; i < 4000; ++i, now += milliseconds(1)) {
    watch.record(now, "127.0.0.1:9");
    if (const auto text = watch.report(now)) logged.push_back(*text);
  }
  ASSERT_EQ(logged.size(), 1u);
  EXPECT_THAT(logged[0], AllOf(HasSubstr("A storm of connections at 127.0.0.1:7"),
                               HasSubstr("from 127.0.0.1:9"), HasSubstr("not members")));
  EXPECT_FALSE(watch.report(now));
  now += ConnectionStormDetector::kCalm;
  EXPECT_THAT(watch.report(now).value_or(""), HasSubstr("is over: 4000 were closed in 4 s"));
  EXPECT_FALSE(watch.report(now));
}

}  // namespace
}  // namespace brigade::rpc
