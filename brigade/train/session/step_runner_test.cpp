#include "brigade/train/session/step_runner.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/comm/step_progress.h"

namespace brigade::train {
namespace {

template <class Exception>
bool retries(const Exception& exception) {
  return is_retryable(std::make_exception_ptr(exception));
}

/// An exception of a replica that is not Brigade's, as `Strategy::run` throws it.
template <class Exception>
bool retries_nested(const Exception& exception) {
  try {
    try {
      throw exception;
    } catch (...) {
      std::throw_with_nested(Error(ErrorCode::kAborted, "Replica 0: failed"));
    }
  } catch (...) {
    return is_retryable(std::current_exception());
  }
}

TEST(StepRunner, RetriesLostPeersAndNoErrorsOfTheProgram) {
  EXPECT_TRUE(retries(Error(ErrorCode::kUnavailable, "a peer is gone")));
  EXPECT_TRUE(retries(comm::StepAbandoned(5, {1}, "rank 1 failed")));
  EXPECT_TRUE(retries_nested(Error(ErrorCode::kUnavailable, "a peer is gone")));
  EXPECT_FALSE(retries(Error(ErrorCode::kAborted, "my own check failed")));
  EXPECT_FALSE(retries(Error(ErrorCode::kInvalidArgument, "a bug")));
  EXPECT_FALSE(retries(std::runtime_error("a bug")));
  EXPECT_FALSE(retries(42));
  EXPECT_FALSE(retries_nested(std::runtime_error("a bug")));
}

TEST(StepRunner, GivesUpAfterTheRetriesSinceTheLastProgress) {
  int calls = 0;
  int recoveries = 0;
  StepRunner runner({.max_retries = 2, .recover = [&] { return ++recoveries > 0; }});
  const auto fail = [&]() -> int {
    ++calls;
    throw Error(ErrorCode::kUnavailable, "a peer is gone");
  };
  EXPECT_THROW(runner.run(fail), Error);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(recoveries, 2);
  EXPECT_THROW(runner.run(fail), Error);
  EXPECT_EQ(calls, 4);
  runner.made_progress();
  EXPECT_EQ(runner.run([&] { return calls < 6 ? fail() : calls; }), 6);
}

TEST(StepRunner, ThrowsTheStepsErrorIfTheRecoveryFailsOrIsCancelled) {
  const auto message = [](StepRunnerOptions options) {
    try {
      StepRunner(std::move(options)).run([]() -> int {
        throw Error(ErrorCode::kUnavailable, "a peer is gone");
      });
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message({.recover = [] { return false; }}), "a peer is gone");
  EXPECT_EQ(message({.recover = []() -> bool { throw std::runtime_error("no disk"); }}),
            "a peer is gone");
  concurrency::CancelToken cancelled;
  cancelled.cancel();
  EXPECT_EQ(message({.cancel = cancelled}), "a peer is gone");
}

}  // namespace
}  // namespace brigade::train
