#include "brigade/distribute/replica_failure.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

template <class E>
std::exception_ptr pointer_to(E error) {
  return std::make_exception_ptr(std::move(error));
}

TEST(ReplicaFailure, WithoutAFailureNothingIsThrown) {
  const MirroredStrategy strategy(cpus(2));
  EXPECT_NO_THROW(ReplicaFailure().rethrow(strategy));
}

TEST(ReplicaFailure, KeepsTheFirstAndNamesItsReplica) {
  const MirroredStrategy strategy(cpus(2));
  ReplicaFailure failure;
  EXPECT_EQ(failure.record(1, pointer_to(Error(ErrorCode::kDataLoss, "torn page"))),
            "replica 1 failed: torn page");
  failure.record(0, pointer_to(Error(ErrorCode::kAborted, "released")));
  const Error error = error_from([&] { failure.rethrow(strategy); });
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_TRUE(mentions(error, "Replica 1 (")) << error.what();
  EXPECT_TRUE(mentions(error, "cpu:1")) << error.what();
  EXPECT_TRUE(mentions(error, "torn page")) << error.what();
}

TEST(ReplicaFailure, OneReplicaNeedsNoName) {
  const OneDeviceStrategy strategy("cpu:0");
  ReplicaFailure failure;
  failure.record(0, pointer_to(Error(ErrorCode::kNotFound, "no such file")));
  EXPECT_STREQ(error_from([&] { failure.rethrow(strategy); }).what(), "no such file");
}

TEST(ReplicaFailure, ForeignExceptionsAreNested) {
  const MirroredStrategy strategy(cpus(2));
  ReplicaFailure failure;
  failure.record(0, pointer_to(std::length_error("too long")));
  try {
    failure.rethrow(strategy);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kAborted);
    EXPECT_TRUE(mentions(error, "too long"));
    EXPECT_THROW(std::rethrow_if_nested(error), std::length_error);
  }
}

TEST(ReplicaFailure, LibtorchsErrorsHaveNoBacktraceAndAnyExceptionIsAccepted) {
  const MirroredStrategy strategy(cpus(2));
  ReplicaFailure torchs;
  torchs.record(0, pointer_to(c10::Error({"f", "file.cpp", 3}, "bad shape")));
  const Error error = error_from([&] { torchs.rethrow(strategy); });
  EXPECT_TRUE(mentions(error, "bad shape"));
  EXPECT_FALSE(mentions(error, "frame #")) << error.what();
  ReplicaFailure odd;
  odd.record(0, pointer_to(42));
  EXPECT_EQ(error_from([&] { odd.rethrow(strategy); }).code(), ErrorCode::kAborted);
}

TEST(ReplicaFailure, AForeignExceptionNamesTheExamplesAndHowToHaveEnough) {
  const MirroredStrategy strategy(cpus(2));
  const auto text_for = [&](const std::vector<std::int64_t>& examples) {
    ReplicaFailure failure;
    failure.record(1, pointer_to(std::length_error("too few")));
    return error_from([&] { failure.rethrow(strategy, ExampleCounts::of(examples)); });
  };
  const Error uneven = text_for({8, 7});
  EXPECT_TRUE(mentions(uneven, "too few") && mentions(uneven, "held 7 of the step's 15 examples"))
      << uneven.what();
  EXPECT_TRUE(mentions(uneven, "Remainder::kDrop")) << uneven.what();
  EXPECT_TRUE(mentions(text_for({1, 1}), "Remainder::kDrop"));
  EXPECT_TRUE(mentions(text_for({8, 8}), "held 8 of the step's 16 examples"));
  EXPECT_FALSE(mentions(text_for({8, 8}), "kDrop"));
}

}  // namespace
}  // namespace brigade::distribute
