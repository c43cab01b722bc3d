#include "brigade/ps/server/step_waits.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/ps/testing/empty_service.h"

namespace brigade::ps {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Lets nobody begin, and counts the pieces of the calls.
class ClosedGate final : public testing::EmptyService {
 public:
  BeginStepReply begin_step(const std::string& token, const BeginStepRequest& request,
                            Time) override {
    ++pieces;
    if (token == "stranger") throw NotMemberError("The server does not know this token.");
    std::this_thread::sleep_for(request.wait);  // as a service that nobody wakes
    return {.waiting_for = {token}};
  }
  std::atomic<int> pieces{0};
};

StepWaits::Time in_a_minute() {
  return std::chrono::steady_clock::now() + seconds(60);
}

TEST(StepWaits, ACallLastsAsLongAsItsWait) {
  ClosedGate gate;
  StepWaits waits(gate);
  const auto begun = std::chrono::steady_clock::now();
  const BeginStepReply reply = waits.run("a", {.wait = milliseconds(700)}, in_a_minute(), [] {});
  EXPECT_FALSE(reply.may_begin);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, milliseconds(600));
  EXPECT_GE(gate.pieces, 3);
}

TEST(StepWaits, ACallWithoutAWaitAsksOnce) {
  ClosedGate gate;
  StepWaits waits(gate);
  waits.run("a", {}, in_a_minute(), [] {});
  EXPECT_EQ(gate.pieces, 1);
}

TEST(StepWaits, AnErrorOfTheServiceOrTheCheckEndsIt) {
  ClosedGate gate;
  StepWaits waits(gate);
  EXPECT_THROW(waits.run("stranger", {.wait = seconds(30)}, in_a_minute(), [] {}), NotMemberError);
  const auto check = [&] {
    if (gate.pieces >= 3) throw Error(ErrorCode::kCancelled, "The caller is gone.");
  };
  EXPECT_THROW(waits.run("a", {.wait = seconds(30)}, in_a_minute(), check), Error);
  EXPECT_EQ(gate.pieces, 3);
}

TEST(StepWaits, ALaterCallOfTheSameTaskAloneReplacesIt) {
  ClosedGate gate;
  StepWaits waits(gate);
  const auto code_of = [&](const std::string& token, milliseconds wait) {
    try {
      waits.run(token, {.wait = wait}, in_a_minute(), [] {});
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;  // it returned
  };
  auto first = std::async(std::launch::async, code_of, "a", seconds(60));
  const auto until = in_a_minute();
  while (gate.pieces == 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_EQ(code_of("b", milliseconds(1)), ErrorCode::kInternal);
  EXPECT_EQ(first.wait_for(milliseconds(0)), std::future_status::timeout);
  EXPECT_EQ(code_of("a", milliseconds(1)), ErrorCode::kInternal);
  ASSERT_EQ(first.wait_for(seconds(30)), std::future_status::ready);
  EXPECT_EQ(first.get(), ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace brigade::ps
