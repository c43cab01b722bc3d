#include "brigade/concurrency/barrier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::concurrency {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

void run_parties(int parties, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int party = 0; party < parties; ++party) threads.emplace_back([&, party] { body(party); });
  for (std::thread& thread : threads) thread.join();
}

BarrierOptions options_of(int parties, microseconds spin = microseconds(0)) {
  return {.parties = parties, .timeout = seconds(60), .spin = spin, .party_name = "replica"};
}

/// The error that a wait throws; its code is kInternal if it throws none.
Error error_of(Barrier& barrier, int party) {
  try {
    barrier.arrive_and_wait(party);
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::kInternal, "nothing was thrown"};
}

bool contains(const Error& error, const std::string& text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

TEST(Barrier, RefusesFewerThanOneParty) {
  EXPECT_THROW(Barrier({.parties = 0}), Error);
  EXPECT_THROW(Barrier({.parties = -1}), Error);
}

TEST(Barrier, OnePartyNeverWaits) {
  Barrier barrier(options_of(1));
  for (int round = 0; round < 3; ++round) barrier.arrive_and_wait(0);
}

class BarrierSpin : public ::testing::TestWithParam<int> {};

TEST_P(BarrierSpin, BlocksUntilAllHaveArrivedAndMakesWritesVisible) {
  constexpr int kParties = 3;
  constexpr int kRounds = 200;
  Barrier barrier(options_of(kParties, microseconds(GetParam())));
  std::vector<int> written(kParties, -1);  // plain memory: the barrier alone orders it
  std::atomic<int> wrong = 0;
  run_parties(kParties, [&](int party) {
    for (int round = 0; round < kRounds; ++round) {
      written[party] = round;
      barrier.arrive_and_wait(party);
      for (const int value : written) wrong += value != round;
      barrier.arrive_and_wait(party);
    }
  });
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(SleepingAndPolling, BarrierSpin, ::testing::Values(0, 50));

TEST(Barrier, AWaitEndsAtTheDeadlineAndNamesTheMissingParties) {
  Barrier barrier({.parties = 3,
                   .timeout = milliseconds(30),
                   .spin = microseconds(0),
                   .party_name = "replica"});
  const Error error = error_of(barrier, 1);
  EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(contains(error, "replica 0, replica 2")) << error.what();
  EXPECT_TRUE(contains(error, "30 ms")) << error.what();
}

TEST(Barrier, ALatePartyGetsTheDeadlineErrorImmediately) {
  Barrier barrier({.parties = 2, .timeout = milliseconds(20), .spin = microseconds(0)});
  EXPECT_EQ(error_of(barrier, 0).code(), ErrorCode::kDeadlineExceeded);
  const Error late = error_of(barrier, 1);
  EXPECT_EQ(late.code(), ErrorCode::kAborted);
  EXPECT_TRUE(contains(late, "which did not come")) << late.what();
}

TEST(Barrier, AbortReleasesPresentAndLaterWaits) {
  Barrier barrier(options_of(3));
  std::vector<ErrorCode> codes(2, ErrorCode::kInternal);
  run_parties(3, [&](int party) {
    if (party == 2) return barrier.abort(2, "replica 2 failed: no more paper");
    const Error error = error_of(barrier, party);
    codes[party] = error.code();
    EXPECT_TRUE(contains(error, "no more paper")) << error.what();
  });
  EXPECT_EQ(codes, std::vector<ErrorCode>(2, ErrorCode::kAborted));
}

TEST(Barrier, TheFirstReasonOfAnAbortIsKept) {
  Barrier barrier(options_of(2));
  barrier.abort(0, "the first");
  barrier.abort(1, "the second");
  EXPECT_TRUE(contains(error_of(barrier, 1), "the first"));
}

TEST(Barrier, WaitingForAPartyThatLeftIsAnErrorThatNamesIt) {
  Barrier barrier(options_of(2));
  run_parties(2, [&](int party) {
    if (party == 0) return barrier.leave(0);
    const Error error = error_of(barrier, 1);
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    EXPECT_TRUE(contains(error, "replica 0 has already returned")) << error.what();
  });
}

TEST(Barrier, LeavingAfterTheLastWaitHasNoEffect) {
  for (int round = 0; round < 200; ++round) {
    Barrier barrier(options_of(2, microseconds(round % 2 * 20)));
    run_parties(2, [&](int party) {
      EXPECT_NO_THROW(barrier.arrive_and_wait(party));
      barrier.leave(party);
    });
  }
}

TEST(Barrier, AnAbortExplainsMoreThanALeave) {
  Barrier barrier(options_of(3));
  barrier.leave(0);
  barrier.abort(1, "replica 1 failed: the cause");
  const Error error = error_of(barrier, 2);
  EXPECT_EQ(error.code(), ErrorCode::kAborted);
  EXPECT_TRUE(contains(error, "the cause")) << error.what();
}

TEST(Barrier, IsAsNewAfterReset) {
  Barrier barrier(
      {.parties = 2, .timeout = milliseconds(20), .spin = microseconds(0), .party_name = "p"});
  EXPECT_EQ(error_of(barrier, 0).code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(error_of(barrier, 0).code(), ErrorCode::kAborted);
  barrier.reset();
  barrier.leave(1);
  barrier.reset();
  Barrier patient(options_of(2));
  patient.abort(0, "broken");
  EXPECT_EQ(error_of(patient, 1).code(), ErrorCode::kAborted);
  patient.reset();
  run_parties(2, [&](int party) { EXPECT_NO_THROW(patient.arrive_and_wait(party)); });
  // One of two has come, whatever came before the reset: the other is missing, not both.
  const Error error = error_of(barrier, 0);
  EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(contains(error, "for p 1,")) << error.what();
}

}  // namespace
}  // namespace brigade::concurrency
