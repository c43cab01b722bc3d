#include "brigade/cluster/variable_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/cluster/testing/refusal.h"

namespace brigade::cluster {
namespace {

using testing::refusal;

std::string variables_refusal(const std::map<std::string, std::string>& variables) {
  return refusal([&] {
    const Environment environment = make_environment(variables);
    ClusterConfig config;
    VariableReader(environment, "the test").read_rank(config, "RANK", "SIZE");
  });
}

TEST(VariableReader, AMessageShowsTheBeginningOfALongValue) {
  const std::string why = variables_refusal({{"RANK", "0"}, {"SIZE", std::string(100'000, '9')}});
  EXPECT_LT(why.size(), 500u);
  EXPECT_NE(why.find("(100000 bytes)"), std::string::npos) << why;
}

TEST(VariableReader, HasAMessageForEachMistake) {
  EXPECT_EQ(variables_refusal({{"RANK", "0"}}),
            "INVALID_ARGUMENT: In the test, SIZE is missing; set it as well, or none of the set.");
  EXPECT_EQ(variables_refusal({{"RANK", ""}, {"SIZE", "2"}}),
            "INVALID_ARGUMENT: In the test, RANK is empty.");
  for (const char* rank : {"-1", "x", "1.5", "99999999999", "0x1", "1 2"}) {
    EXPECT_EQ(variables_refusal({{"RANK", rank}, {"SIZE", "2"}}),
              "INVALID_ARGUMENT: In the test, RANK is '" + std::string(rank) +
                  "', which is not a whole number from 0 on.");
  }
  EXPECT_EQ(variables_refusal({{"RANK", "0"}, {"SIZE", "0"}}),
            "INVALID_ARGUMENT: In the test, SIZE is '0', which is not a whole number from 1 on.");
  EXPECT_EQ(variables_refusal({{"RANK", "2"}, {"SIZE", "2"}}),
            "INVALID_ARGUMENT: In the test, RANK is 2 and SIZE is 2; ranks go from 0 to 1.");
  EXPECT_EQ(variables_refusal({{"RANK", "1"}, {"SIZE", "2"}}), "nothing");
}

TEST(VariableReader, JobsGetPortsThatSystemsDoNotGiveOut) {
  EXPECT_EQ(port_of_job("4711.0"), port_of_job("4711.0"));
  EXPECT_NE(port_of_job("4711.0"), port_of_job("4711.1"));
  for (int job = 0; job < 100; ++job) {
    const int port = port_of_job(std::to_string(job));
    EXPECT_GE(port, 15000);
    EXPECT_LT(port, 25000);
  }
}

}  // namespace
}  // namespace brigade::cluster
