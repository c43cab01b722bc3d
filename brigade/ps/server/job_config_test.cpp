#include "brigade/ps/server/job_config.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <optional>

#include "brigade/base/error.h"

namespace brigade::ps {
namespace {

bool is_invalid(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() == ErrorCode::kInvalidArgument;
  }
  return false;
}

TEST(JobConfig, IsReadAsItWasWritten) {
  for (const UpdateMode mode : {UpdateMode::kAsync, UpdateMode::kBounded, UpdateMode::kSync}) {
    const JobConfig job = {
        .mode = mode, .staleness = 3, .sync = {.replicas_to_aggregate = 4, .total_replicas = 5}};
    EXPECT_EQ(job_from_state(to_state(job)), job);
  }
  const JobConfig aware = {.staleness_aware = true};
  EXPECT_EQ(job_from_state(to_state(aware)), aware);
  EXPECT_FALSE(to_state(JobConfig{}).has("staleness_aware")) << "as earlier versions wrote it";
  io::StateTree other = to_state({});
  other["mode"] = "never";
  EXPECT_TRUE(is_invalid([&] { job_from_state(other); }));
  other = to_state({});
  other["total_replicas"] = 0;
  EXPECT_TRUE(is_invalid([&] { job_from_state(other); }));
  EXPECT_TRUE(is_invalid([&] { job_from_state({}); }));
}

TEST(JobConfig, NumbersOutOfRangeAreRefused) {
  const auto sync = [](int aggregate, int total) {
    return JobConfig{.mode = UpdateMode::kSync,
                     .sync = {.replicas_to_aggregate = aggregate, .total_replicas = total}};
  };
  check_job(sync(2, 3), 3);
  check_job(sync(4, 3), 3);
  constexpr int kMost = std::numeric_limits<int>::max();
  for (const auto& [aggregate, total] :
       {std::pair(0, 1), std::pair(1, 0), std::pair(-1, 1), std::pair(kMost, kMost)})
    EXPECT_TRUE(is_invalid([&] { check_job(sync(aggregate, total), 3); })) << aggregate;
  EXPECT_TRUE(is_invalid([&] { check_job({.staleness = -1}, 3); }));
  EXPECT_TRUE(is_invalid([&] { check_job({.mode = static_cast<UpdateMode>(9)}, 3); }));
}

TEST(JobConfig, OnlyUpdatesThatMayBeStaleHaveARateThatFollowsStaleness) {
  check_job({.staleness_aware = true}, 3);
  check_job({.mode = UpdateMode::kBounded, .staleness_aware = true}, 3);
  EXPECT_TRUE(
      is_invalid([] { check_job({.mode = UpdateMode::kSync, .staleness_aware = true}, 3); }));
}

TEST(JobConfig, AStepThatTheTasksCanNeverMakeIsRefused) {
  const JobConfig job = {.mode = UpdateMode::kSync,
                         .sync = {.replicas_to_aggregate = 4, .total_replicas = 4}};
  check_job(job, 4);
  EXPECT_TRUE(is_invalid([&] { check_job(job, 3); }));
}

}  // namespace
}  // namespace brigade::ps
