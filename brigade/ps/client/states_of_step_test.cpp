#include "brigade/ps/client/states_of_step.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/testing/error_code.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;

/// One server for each step; 0: it was not asked.
ServerStates states_at(const std::vector<std::int64_t>& steps) {
  ServerStates states(steps.size());
  for (std::size_t server = 0; server < steps.size(); ++server)
    if (steps[server] > 0) states[server] = StoredStates{.step = steps[server]};
  return states;
}

TEST(StatesOfOneStep, AreReadAgainUntilAllServersAreAtOneStep) {
  const std::vector<std::vector<std::int64_t>> readings = {{4, 5, 5}, {6, 5, 6}, {7, 7, 7}};
  std::size_t next = 0;
  const ServerStates states = states_of_one_step([&] { return states_at(readings.at(next++)); },
                                                 std::chrono::minutes(1), {});
  EXPECT_EQ(next, 3U);
  ASSERT_EQ(states.size(), 3U);
  for (const auto& each : states) EXPECT_EQ(each.value().step, 7);
}

TEST(StatesOfOneStep, OfServersThatWereNotAskedDoNotCount) {
  int readings = 0;
  const auto read = [&] {
    ++readings;
    return states_at({3, 0, 3});
  };
  EXPECT_FALSE(states_of_one_step(read, std::chrono::minutes(1), {})[1].has_value());
  EXPECT_EQ(readings, 1);
}

TEST(StatesOfOneStep, ThatAreNeverThereAreAnErrorThatNamesTheSteps) {
  try {
    states_of_one_step([] { return states_at({4, 0, 5}); }, std::chrono::milliseconds(5), {});
    ADD_FAILURE() << "they differ";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
    EXPECT_NE(std::string(error.what()).find("ps:0 at 4, ps:2 at 5"), std::string::npos)
        << error.what();
  }
}

TEST(StatesOfOneStep, StopBeingReadWhenTheWaitIsCancelled) {
  const concurrency::CancelToken cancel;
  const auto read = [&] {
    cancel.cancel();
    return states_at({4, 5});
  };
  EXPECT_EQ(code_of([&] { states_of_one_step(read, std::chrono::minutes(1), cancel); }),
            ErrorCode::kCancelled);
}

}  // namespace
}  // namespace brigade::ps
