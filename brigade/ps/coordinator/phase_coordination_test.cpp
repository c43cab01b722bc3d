#include "brigade/ps/coordinator/phase_coordination.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/concurrency/testing/waiting.h"
#include "brigade/ps/testing/unused_port.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using concurrency::testing::kLong;
using concurrency::testing::result_of;
using concurrency::testing::start;
using distribute::CoordinatedPhase;
using distribute::Coordination;
using distribute::RemoteData;
using distribute::RemoteFunction;

RemoteData remote_number(std::int64_t number) {
  RemoteData data;
  data.values["number"] = number;
  return data;
}

/// What workers offer: "square", and "refuse", which fails.
std::vector<RemoteFunction> arithmetic() {
  return {{.name = "square",
           .run =
               [](const RemoteData& arguments) {
                 const std::int64_t number = arguments.values.as_int64("number");
                 RemoteData result = remote_number(number * number);
                 result.tensors = arguments.tensors;
                 return result;
               }},
          {.name = "refuse", .run = [](const RemoteData&) -> RemoteData {
             throw Error(ErrorCode::kOutOfRange, "No.");
           }}};
}

/// The next result, which must come soon.
RemoteData result_from(CoordinatedPhase& phase) {
  auto result = phase.next_result(kLong);
  check_state(result.has_value(), "The test got no result.");
  return std::move(*result);
}

class PhaseCoordinationTest : public ::testing::Test {
 protected:
  ~PhaseCoordinationTest() override { cancel.cancel(); }

  std::shared_ptr<Coordination> join(
      const std::string& job, int index,
      std::chrono::milliseconds coordinator_timeout = std::chrono::seconds(30)) const {
    return make_phase_coordination({.cluster = spec,
                                    .task = {.job = job, .index = index},
                                    .rank = job == "chief" ? 0 : index + 1,
                                    .world_size = 3,
                                    .source = "this test"},
                                   {.key = std::nullopt,
                                    .lease = std::chrono::seconds(2),
                                    .coordinator_timeout = coordinator_timeout,
                                    .cancel = cancel});
  }
  /// Serves phases in a thread, until one was not there, and returns their outcomes.
  std::future<std::vector<std::string>> serve(int index) const {
    return start([this, index] {
      const auto worker = join("worker", index);
      std::vector<std::string> outcomes;
      while (true) {
        try {
          const auto outcome = worker->serve_phase(arithmetic());
          if (!outcome) return outcomes;
          outcomes.push_back(outcome->as_string());
        } catch (const Error& error) {
          outcomes.push_back(error.code() == ErrorCode::kAborted ? "failed" : error.what());
          if (error.code() != ErrorCode::kAborted) return outcomes;
        }
      }
    });
  }

  const concurrency::CancelToken cancel;
  const cluster::ClusterSpec spec{std::map<std::string, std::vector<std::string>>{
      {"chief", {base::str_cat("127.0.0.1:", testing::unused_port())}},
      {"worker", {"127.0.0.1:3", "127.0.0.1:4"}}}};
};

TEST_F(PhaseCoordinationTest, WorkersRunThePhasesFunctionsAndGetItsOutcome) {
  std::vector<std::future<std::vector<std::string>>> workers;
  {
    const auto chief = join("chief", 0);
    EXPECT_TRUE(chief->is_coordinator());
    EXPECT_EQ(chief->num_workers(), 2);
    for (const int index : {0, 1}) workers.push_back(serve(index));
    for (const std::string outcome : {"one", "two"}) {
      const auto phase = chief->begin_phase();
      for (std::int64_t number = 0; number < 20; ++number) {
        RemoteData arguments = remote_number(number);
        arguments.tensors.push_back({"x", at::full({2}, number)});
        phase->schedule("square", arguments);
      }
      EXPECT_EQ(phase->unfinished(), 20u);
      std::int64_t sum = 0;
      while (phase->unfinished() > 0) {
        const RemoteData result = result_from(*phase);
        const std::int64_t number = result.tensors.at(0).tensor[1].item<std::int64_t>();
        EXPECT_EQ(result.values.as_int64("number"), number * number);
        sum += number;
      }
      EXPECT_EQ(sum, 190) << "each function has one result";
      EXPECT_FALSE(phase->next_result(kLong)) << "none is left, so it does not wait";
      phase->end(outcome);
    }
  }
  for (auto& worker : workers)
    EXPECT_EQ(result_of(worker), (std::vector<std::string>{"one", "two"}));
}

TEST_F(PhaseCoordinationTest, AnErrorIsTheOneThatCancelledTheOthersAndEndsThePhase) {
  std::future<std::vector<std::string>> worker;
  {
    const auto chief = join("chief", 0);
    worker = serve(0);
    {
      const auto phase = chief->begin_phase();
      phase->schedule("refuse", {});
      EXPECT_EQ(code_of([&] {
                  // The first result may be that of a function which was cancelled.
                  for (std::int64_t i = 0; i < 20; ++i) phase->schedule("square", remote_number(i));
                  result_from(*phase);
                }),
                ErrorCode::kOutOfRange);
    }
    const auto phase = chief->begin_phase();
    phase->schedule("square", remote_number(3));
    EXPECT_EQ(result_from(*phase).values.as_int64("number"), 9);
    phase->end("two");
  }
  EXPECT_EQ(result_of(worker), (std::vector<std::string>{"failed", "two"}));
}

TEST_F(PhaseCoordinationTest, WhatIsDroppedHasNoResult) {
  std::future<std::vector<std::string>> worker;  // ends with the chief
  const auto chief = join("chief", 0);
  const auto phase = chief->begin_phase();
  for (std::int64_t i = 0; i < 20; ++i) phase->schedule("refuse", {});
  EXPECT_EQ(code_of([&] { chief->begin_phase(); }), ErrorCode::kFailedPrecondition)
      << "within the other one";
  phase->drop();
  EXPECT_EQ(phase->unfinished(), 0u);
  worker = serve(0);
  phase->schedule("square", remote_number(4));
  EXPECT_EQ(result_from(*phase).values.as_int64("number"), 16);
  phase->end("one");
}

TEST_F(PhaseCoordinationTest, AFunctionThatAWorkerDoesNotHaveIsNamed) {
  std::future<std::vector<std::string>> worker;  // ends with the chief
  const auto chief = join("chief", 0);
  worker = serve(1);
  const auto phase = chief->begin_phase();
  phase->schedule("cube", remote_number(2));
  EXPECT_EQ(code_of([&] { result_from(*phase); }), ErrorCode::kNotFound);
}

TEST_F(PhaseCoordinationTest, AWorkerThatHasFoundNoChiefServesTheSamePhaseLater) {
  const auto worker = join("worker", 0, std::chrono::seconds(3));
  EXPECT_EQ(code_of([&] { worker->serve_phase({}); }), ErrorCode::kUnavailable);
  std::future<std::optional<io::StateTree>> served;  // ends with the chief
  const auto chief = join("chief", 0);
  const auto phase = chief->begin_phase();
  served = start([&] { return worker->serve_phase(arithmetic()); });
  phase->schedule("square", remote_number(5));
  EXPECT_EQ(result_from(*phase).values.as_int64("number"), 25);
  phase->end("one");
  const auto outcome = result_of(served);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->as_string(), "one");
}

TEST_F(PhaseCoordinationTest, EachSideHasItsOwnCalls) {
  EXPECT_EQ(code_of([&] { join("chief", 0)->serve_phase({}); }), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(code_of([&] { join("worker", 0)->begin_phase(); }), ErrorCode::kFailedPrecondition);
}

}  // namespace
}  // namespace brigade::ps
