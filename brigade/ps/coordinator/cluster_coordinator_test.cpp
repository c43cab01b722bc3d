#include "brigade/ps/coordinator/cluster_coordinator.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/concurrency/testing/waiting.h"
#include "brigade/ps/testing/job_of_threads.h"
#include "brigade/ps/testing/local_service.h"
#include "brigade/ps/testing/unused_port.h"
#include "brigade/ps/testing/worker_thread.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using concurrency::testing::kLong;
using testing::expect_equal_bits;
using testing::LocalServers;
using testing::on_one_device;
using testing::Plan;
using testing::Training;
using testing::WorkerThread;

/// A model under the strategy of one task.
struct Coordinated {
  Coordinated(std::unique_ptr<ParameterServerStrategy> of, const Plan& plan)
      : strategy(std::move(of)), training(*strategy, plan) {}
  std::unique_ptr<ParameterServerStrategy> strategy;
  Training training;
};

/// A coordinator with its network, workers in threads, and servers in this process.
class ClusterCoordinatorTest : public ::testing::Test {
 protected:
  static constexpr int kWorkers = 2;

  cluster::ClusterConfig config(const std::string& job, int index) const {
    return {.cluster = spec,
            .task = {.job = job, .index = index},
            .rank = job == "chief" ? 0 : index + 1,
            .world_size = kWorkers + 1,
            .source = "this test"};
  }
  std::unique_ptr<ParameterServerStrategy> strategy(const cluster::ClusterConfig& of,
                                                    ParameterServerOptions options = {}) {
    options.devices = {"cpu:0"};
    options.allow_oversubscription = true;
    options.chief = ChiefRole::kCoordinates;
    options.server_timeout = std::chrono::seconds(60);
    return std::make_unique<ParameterServerStrategy>(of, servers.connect(), options);
  }
  FunctionRegistry<Coordinated> make_functions() {
    FunctionRegistry<Coordinated> made([this](const WorkerContext& worker) {
      return std::make_unique<Coordinated>(strategy(worker.cluster, {.cancel = worker.cancel}),
                                           plan);
    });
    made.add("train_step", [](Coordinated& of, const FunctionCall& call) {
      of.training.step(call.arguments.values.as_int64("step"));
      return FunctionData();
    });
    made.add("double", [](Coordinated&, const FunctionCall& call) {
      return FunctionData{.tensors = {{"doubled", call.arguments.tensor("x") * 2}}};
    });
    made.add("double_input", [](Coordinated&, const FunctionCall& call) {
      return FunctionData{.tensors = {{"doubled", call.arguments.tensor("input/doubled") * 2}}};
    });
    made.add("refuse", [](Coordinated&, const FunctionCall&) -> FunctionData {
      throw Error(ErrorCode::kOutOfRange, "No.");
    });
    made.add("layout", [](Coordinated& of, const FunctionCall&) {
      FunctionData data;
      data.values["index"] = of.strategy->worker_index();
      data.values["count"] = of.strategy->num_workers();
      return data;
    });
    return made;
  }
  std::unique_ptr<WorkerThread> start_worker(int index) {
    const concurrency::CancelToken cancel;
    return std::make_unique<WorkerThread>(
        std::make_unique<CoordinatedWorker>(
            config("worker", index), functions,
            CoordinatedWorkerOptions{.key = std::nullopt, .cancel = cancel}),
        cancel);
  }
  static ClusterCoordinatorOptions options() {
    return {.timeout = std::chrono::seconds(60), .key = std::nullopt};
  }
  static FunctionData step_number(std::int64_t step) {
    FunctionData data;
    data.values["step"] = step;
    return data;
  }
  std::int64_t steps_of_servers() { return servers[0].core().status().step; }

  const Plan plan;
  const cluster::ClusterSpec spec{std::map<std::string, std::vector<std::string>>{
      {"chief", {base::str_cat("127.0.0.1:", testing::unused_port())}},
      {"ps", {"127.0.0.1:1", "127.0.0.1:2"}},
      {"worker", {"127.0.0.1:3", "127.0.0.1:4"}}}};
  LocalServers servers{{.servers = 2, .tasks = spec.training_tasks()}};
  const FunctionRegistry<Coordinated> functions = make_functions();
};

TEST_F(ClusterCoordinatorTest, AWorkersStepsHaveTheBitsOfOneDevice) {
  Coordinated chief(strategy(config("chief", 0)), plan);
  ClusterCoordinator coordinator(*chief.strategy, functions, options());
  const auto worker = start_worker(0);
  for (std::int64_t step = 0; step < plan.steps; ++step)
    coordinator.schedule("train_step", step_number(step));
  coordinator.join();
  EXPECT_TRUE(coordinator.done());
  EXPECT_EQ(steps_of_servers(), plan.steps);
  chief.strategy->fetch_state();
  EXPECT_EQ(chief.strategy->global_step(), plan.steps);
  expect_equal_bits(chief.training.weights(), on_one_device(plan), "the chief's copy");
}

TEST_F(ClusterCoordinatorTest, EveryStepOfSeveralWorkersCountsOnce) {
  constexpr std::int64_t kSteps = 40;
  Coordinated chief(strategy(config("chief", 0)), plan);
  std::vector<std::unique_ptr<WorkerThread>> workers;
  {
    ClusterCoordinator coordinator(*chief.strategy, functions, options());
    for (int index = 0; index < kWorkers; ++index) workers.push_back(start_worker(index));
    for (std::int64_t step = 0; step < kSteps; ++step)
      coordinator.schedule("train_step", step_number(step));
    coordinator.join();
    EXPECT_EQ(steps_of_servers(), kSteps);
  }
  for (const auto& worker : workers) EXPECT_EQ(worker->end(), nullptr) << "it was not told the end";
}

TEST_F(ClusterCoordinatorTest, InputIsDividedAmongTheWorkersWithoutTheChief) {
  Coordinated chief(strategy(config("chief", 0)), plan);
  EXPECT_EQ(chief.strategy->num_workers(), 1) << "its evaluations see all data";
  ClusterCoordinator coordinator(*chief.strategy, functions, options());
  const auto worker = start_worker(1);
  const FunctionData layout = coordinator.fetch(coordinator.schedule("layout"));
  EXPECT_EQ(layout.values.as_int64("index"), 1);
  EXPECT_EQ(layout.values.as_int64("count"), kWorkers);
}

TEST_F(ClusterCoordinatorTest, TensorsTravelAndArgumentsAreThoseOfTheCall) {
  ClusterCoordinator coordinator(config("chief", 0), functions, options());
  at::Tensor x = at::arange(1 << 20, at::kFloat);  // 4 MiB
  const at::Tensor expected = x * 2;
  const RemoteValue value = coordinator.schedule("double", {.tensors = {{"x", x}}});
  x.zero_();
  Coordinated chief(strategy(config("chief", 0)), plan);
  chief.strategy->start_job();
  const auto worker = start_worker(0);
  const std::vector<FunctionData> results = coordinator.fetch(std::vector<RemoteValue>{value});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_TRUE(at::equal(results[0].tensor("doubled"), expected));
  EXPECT_EQ(value.state(), RemoteValueState::kAvailable);
}

TEST_F(ClusterCoordinatorTest, ResultsAreArgumentsOfLaterFunctions) {
  ClusterCoordinatorOptions limited = options();
  limited.max_message_bytes = std::size_t{1} << 20;
  Coordinated chief(strategy(config("chief", 0)), plan);
  ClusterCoordinator coordinator(*chief.strategy, functions, limited);
  const at::Tensor x = at::arange(150'000, at::kFloat);
  const RemoteValue doubled = coordinator.schedule("double", {.tensors = {{"x", x}}});
  const RemoteValue again = coordinator.schedule("double_input", {}, {}, {{"input", doubled}});
  const auto worker = start_worker(0);
  EXPECT_TRUE(at::equal(coordinator.fetch(again).tensor("doubled"), x * 4));
  coordinator.schedule("double_input", {}, {}, {{"input", doubled}, {"other", again}});
  EXPECT_EQ(code_of([&] { coordinator.join(); }), ErrorCode::kInvalidArgument)
      << "together they are more than a message may have";
  coordinator.schedule("double_input", {}, {}, {{"input", again}});
  coordinator.join();
}

TEST_F(ClusterCoordinatorTest, AnErrorIsThrownOnceAndTheCoordinatorIsUsedAgain) {
  Coordinated chief(strategy(config("chief", 0)), plan);
  ClusterCoordinator coordinator(*chief.strategy, functions, options());
  const auto worker = start_worker(0);
  coordinator.schedule("refuse");
  EXPECT_EQ(code_of([&] { coordinator.join(); }), ErrorCode::kOutOfRange);
  coordinator.join();
  coordinator.schedule("train_step", step_number(0));
  coordinator.join();
  EXPECT_EQ(steps_of_servers(), 1);
}

TEST_F(ClusterCoordinatorTest, WhatCannotBeScheduledIsRefusedBeforeItIs) {
  ClusterCoordinatorOptions limited = options();
  limited.max_message_bytes = std::size_t{1} << 20;
  ClusterCoordinator coordinator(config("chief", 0), functions, limited);
  const auto refused = [&](const std::string& function, const FunctionData& arguments) {
    return code_of([&] { coordinator.schedule(function, arguments); });
  };
  EXPECT_EQ(refused("unknown", {}), ErrorCode::kNotFound);
  EXPECT_EQ(refused("double", {.tensors = {{"x", at::Tensor()}}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused("double", {.tensors = {{"x", at::zeros({1 << 18})}}}),
            ErrorCode::kInvalidArgument)
      << "a mebibyte, and what else a message has";
  FunctionData array;
  array.values["array"] = io::ArrayLeaf{.dtype = "U8", .shape = {0}, .bytes = {}};
  EXPECT_EQ(refused("double", array), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { coordinator.create_per_worker_dataset("double"); }),
            ErrorCode::kNotFound);
  EXPECT_TRUE(coordinator.done());
}

TEST_F(ClusterCoordinatorTest, WaitsEndByTheTimeoutAndTheToken) {
  const concurrency::CancelToken cancel;
  ClusterCoordinatorOptions soon = options();
  soon.timeout = std::chrono::milliseconds(1);
  soon.cancel = cancel;
  ClusterCoordinator coordinator(config("chief", 0), functions, soon);
  const RemoteValue value = coordinator.schedule("refuse");
  EXPECT_EQ(code_of([&] { coordinator.join(); }), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(code_of([&] { coordinator.fetch(value); }), ErrorCode::kDeadlineExceeded);
  cancel.cancel();
  EXPECT_EQ(code_of([&] { coordinator.fetch(value); }), ErrorCode::kCancelled);
  EXPECT_EQ(code_of([&] { coordinator.join(); }), ErrorCode::kCancelled);
  EXPECT_EQ(code_of([&] { coordinator.schedule("refuse"); }), ErrorCode::kCancelled);
}

TEST_F(ClusterCoordinatorTest, OnlyAChiefThatDoesNotTrainCoordinates) {
  EXPECT_EQ(code_of([&] { ClusterCoordinator(config("worker", 0), functions, options()); }),
            ErrorCode::kInvalidArgument);
  ParameterServerOptions trains{.devices = {"cpu:0"}, .allow_oversubscription = true};
  ParameterServerStrategy trainer(config("chief", 0), servers.connect(), trains);
  EXPECT_EQ(code_of([&] { ClusterCoordinator(trainer, functions, options()); }),
            ErrorCode::kInvalidArgument);
  trains.chief = ChiefRole::kCoordinates;
  trains.mode = UpdateMode::kSync;
  EXPECT_EQ(
      code_of([&] { ParameterServerStrategy(config("chief", 0), servers.connect(), trains); }),
      ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::ps
