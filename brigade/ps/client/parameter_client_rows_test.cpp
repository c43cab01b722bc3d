#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/comm/local/row_sums.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/ps/client/parameter_client.h"
#include "brigade/ps/testing/small_job.h"

namespace brigade::ps {
namespace {

using testing::kChief;
using testing::kWorker0;
using testing::LocalServers;
using testing::ServiceCall;

constexpr std::size_t kWeights = 0;  // [2, 3]
constexpr std::size_t kOffset = 4;   // [4]

/// A gradient of `value` for one row of "weights".
at::Tensor weights_row(std::int64_t row, double value) {
  return comm::to_sparse(
      {.indices = at::tensor({row}, at::kLong), .values = at::full({1, 3}, value, at::kDouble)},
      {2, 3});
}

/// Gradients of 1, but of "weights" that.
std::vector<at::Tensor> gradients_with(const at::Tensor& weights) {
  auto gradients = testing::small_gradients(1);
  gradients[kWeights] = weights;
  return gradients;
}

std::vector<at::Tensor> row_indices(std::vector<std::int64_t> of_weights,
                                    std::vector<std::int64_t> of_offset = {}) {
  std::vector<at::Tensor> indices(5);
  indices[kWeights] = at::tensor(of_weights, at::kLong);
  if (!of_offset.empty()) indices[kOffset] = at::tensor(of_offset, at::kLong);
  return indices;
}

TEST(ParameterClientRows, ArePushedAndPulledAlone) {
  for (const int count : {1, 2, 3}) {
    LocalServers servers({.servers = count, .tasks = testing::kTasks});
    const auto chief = testing::make_chief(servers, {});
    chief->pull_by_rows(kWeights);
    const auto values = chief->push(gradients_with(weights_row(1, 5)));
    EXPECT_FALSE(values.values[kWeights].value.defined());
    EXPECT_TRUE(at::equal(values.values[kOffset].value, at::full({4}, -1.0, at::kDouble)));
    EXPECT_EQ(values.step, 1);
    const auto rows = chief->pull_rows(row_indices({1, 0, 1}, {3}));
    EXPECT_TRUE(at::equal(rows[kWeights].select(1, 0), at::tensor({-5.0, 0.0, -5.0}, at::kDouble)));
    EXPECT_TRUE(at::equal(rows[kOffset], at::tensor({-1.0}, at::kDouble)));
    EXPECT_FALSE(rows[1].defined());
    EXPECT_EQ(chief->states().variables[kWeights].state.updates, 1);
  }
}

TEST(ParameterClientRows, AreOfAServerThatHasOnlyRowsAtItsStep) {
  LocalServers servers({.servers = 3, .tasks = testing::kTasks});
  const auto chief = testing::make_chief(servers, {});
  chief->pull_by_rows(2);  // the only one of its server
  const auto values = chief->push(testing::small_gradients(1));
  EXPECT_EQ(values.oldest_step, 1);
  EXPECT_EQ(values.newest_step, 1);
  const auto again = chief->pull();
  EXPECT_EQ(again.oldest_step, 1) << "not the 0 of a server that was not asked";
}

TEST(ParameterClientRows, AreNotStaleOnAServerOfWhichTheyWereJustRead) {
  const JobConfig job = {.staleness_aware = true};
  LocalServers servers({.servers = 5, .tasks = testing::kTasks});  // "weights" has one for itself
  const auto chief = testing::make_chief(servers, job);
  const auto worker = testing::make_worker(servers, kWorker0, job);
  chief->pull_by_rows(kWeights);
  chief->pull();
  for (int i = 0; i < 3; ++i) worker->push(testing::small_gradients(1));
  chief->pull_rows(row_indices({0}));
  EXPECT_EQ(chief->push(gradients_with(weights_row(0, 6))).staleness, 3) << "of the others";
  const at::Tensor rows = chief->pull_rows(row_indices({0}))[kWeights];
  EXPECT_TRUE(at::equal(rows, at::full({1, 3}, -9.0, at::kDouble))) << rows << " at the full rate";
}

TEST(ParameterClientRows, APushOfRowsThatFailedIsCompletedWithTheRowsOfThen) {
  LocalServers servers({.servers = 2, .tasks = testing::kTasks});
  const auto chief =
      testing::make_chief(servers, {}, {.server_timeout = std::chrono::milliseconds(300)});
  servers[0].stop();
  const at::Tensor gradient = weights_row(0, 4);
  EXPECT_THROW(chief->push(gradients_with(gradient)), Error);
  gradient._values().fill_(1000);  // as for the next step
  servers[0].start();
  servers[0].lose_replies(ServiceCall::kExchange);
  chief->push(gradients_with(weights_row(1, 2)));
  const at::Tensor weights = chief->pull().values[kWeights].value;
  EXPECT_TRUE(at::equal(weights.select(1, 0), at::tensor({-4.0, -2.0}, at::kDouble)));
}

TEST(ParameterClientRows, RowsThatDoNotExistAreRefused) {
  LocalServers servers({.servers = 2, .tasks = testing::kTasks});
  const auto chief = testing::make_chief(servers, {});
  EXPECT_THROW(chief->pull_rows(row_indices({2})), Error);
  EXPECT_THROW(chief->pull_rows(row_indices({-1})), Error);
  EXPECT_THROW(chief->pull_rows(std::vector<at::Tensor>(4)), Error) << "not one for each";
  EXPECT_TRUE(
      at::equal(chief->pull_rows(row_indices({0}))[kWeights], at::zeros({1, 3}, at::kDouble)))
      << "the server serves on";
}

TEST(ParameterClientRows, ASynchronousStepAddsTheRowsOfAll) {
  LocalServers servers({.servers = 2, .tasks = {kChief, kWorker0}});
  const JobConfig job = {.mode = UpdateMode::kSync,
                         .sync = {.replicas_to_aggregate = 2, .total_replicas = 2}};
  const concurrency::CancelToken cancel;
  const auto chief = testing::make_chief(servers, job, {.cancel = cancel});
  const auto worker = testing::make_worker(servers, kWorker0, job, {.cancel = cancel});
  for (ParameterClient* client : {chief.get(), worker.get()}) {
    client->pull();
    client->pull_by_rows(kWeights);
    client->begin_step();
  }
  chief->push(gradients_with(weights_row(0, 1)));
  worker->push(gradients_with(weights_row(1, 2)));
  std::vector<std::future<void>> next_steps;  // each waits for the other's gradient
  for (ParameterClient* client : {chief.get(), worker.get()})
    next_steps.push_back(std::async(std::launch::async, [client] { client->begin_step(); }));
  for (std::future<void>& step : next_steps) {
    if (step.wait_for(std::chrono::seconds(30)) != std::future_status::ready) cancel.cancel();
    step.get();
  }
  for (ParameterClient* client : {chief.get(), worker.get()}) {
    const at::Tensor rows = client->pull_rows(row_indices({0, 1}))[kWeights];
    EXPECT_TRUE(at::equal(rows.select(1, 0), at::tensor({-1.0, -2.0}, at::kDouble)));
  }
}

}  // namespace
}  // namespace brigade::ps
