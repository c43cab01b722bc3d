#include "brigade/ps/client/row_copies.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/testing/job_of_threads.h"

namespace brigade::ps {
namespace {

using distribute::ReplicaContext;
using testing::JobOfThreads;
using testing::ServiceCall;

struct TableNet : torch::nn::Module {
  TableNet()
      : table(register_parameter("table", testing::waves(10, 16, 0.1))),
        bias(register_parameter("bias", testing::waves(1, 16, 0.2)[0])) {}
  at::Tensor table, bias;
};

at::Tensor table_ids(std::vector<std::int64_t> ids) {
  return at::tensor(ids, at::kLong);
}

void fetch(const at::Tensor& table, std::vector<std::int64_t> ids) {
  const std::vector<variables::WantedRows> wanted = {
      {.table = table, .ids = table_ids(std::move(ids))}};
  variables::fetch_rows(wanted);
}

/// A worker with a table that has begun its job, and the exchanges that it makes since then.
class TableWorker {
 public:
  explicit TableWorker(ParameterServerOptions options = {}, int servers = 1, bool is_frozen = false)
      : job_(servers, 1),
        strategy_(job_.join(0, std::move(options))),
        model_(strategy_->create<TableNet>()),
        sgd_(strategy_->optimizer(model_, optim::Sgd{.learning_rate = 1}, options_of(is_frozen))) {
    strategy_->run([] {});
    for (int server = 0; server < servers; ++server)
      job_.servers()[server].before_calls([this](ServiceCall call) {
        if (call == ServiceCall::kExchange) ++exchanges_;
      });
  }
  ParameterServerStrategy& strategy() { return *strategy_; }
  const distribute::Replicated<TableNet>& model() const { return model_; }
  const distribute::Optimizer& sgd() const { return sgd_; }
  int exchanges() const { return exchanges_; }

 private:
  static distribute::OptimizerOptions options_of(bool is_frozen) {
    if (!is_frozen) return {};
    return {.groups = {{.names = {"table"}, .frozen = true}}};
  }

  std::atomic<int> exchanges_ = 0;  // outlives the servers, which count
  JobOfThreads job_;
  std::unique_ptr<ParameterServerStrategy> strategy_;
  distribute::Replicated<TableNet> model_;
  distribute::Optimizer sgd_;
};

TEST(RowCopies, ReplicasOfOneMemoryPullEachRowOnceAStep) {
  TableWorker worker({.devices = distribute::cpus(2).devices});
  for (int step = 1; step <= 3; ++step) {
    worker.strategy().run([&](ReplicaContext& context) {
      fetch(worker.model()->table, {1, 2});
      context.barrier();
      fetch(worker.model()->table, {2, 1, 1});
    });
    EXPECT_EQ(worker.exchanges(), step);
  }
}

TEST(RowCopies, OnlyRowsThatAreNotCurrentArePulled) {
  TableWorker worker({}, 2);
  worker.strategy().run([&] {
    fetch(worker.model()->table, {1, 2});
    fetch(worker.model()->table, {});
    EXPECT_EQ(worker.exchanges(), 1);
    fetch(worker.model()->table, {2, 9});
    EXPECT_EQ(worker.exchanges(), 2);
  });
}

TEST(RowCopies, AreOldAfterAnUpdate) {
  TableWorker worker;
  at::Tensor row;
  worker.strategy().run([&] {
    const at::Tensor before = worker.model()->table[3].detach().clone();
    fetch(worker.model()->table, {3});
    worker.sgd().minimize(
        at::embedding(worker.model()->table, table_ids({3}), -1, false, /*sparse=*/true).sum(),
        distribute::LossScale::kSum);
    EXPECT_TRUE(worker.model()->table[3].equal(before)) << "rows are not in the reply of a push";
    fetch(worker.model()->table, {3});
    EXPECT_TRUE(worker.model()->table[3].equal(before - 1));
  });
}

TEST(RowCopies, PartsOnSeveralServersArePulledTogether) {
  TableWorker worker({.variable_partitioner =
                          [](at::IntArrayRef shape, at::ScalarType) {
                            return shape.size() == 2 ? std::vector<std::int64_t>{3, 1}
                                                     : std::vector<std::int64_t>{1};
                          }},
                     3);
  worker.strategy().run([&] {
    const at::NoGradGuard no_grad;
    const at::Tensor before = worker.model()->table.clone();
    fetch(worker.model()->table, {0, 3, 4, 9});
    EXPECT_TRUE(worker.model()->table.equal(before)) << "the same values, at their places";
    EXPECT_EQ(worker.exchanges(), 3);
    fetch(worker.model()->table, {5, 6});
    EXPECT_EQ(worker.exchanges(), 4) << "of one part";
  });
}

TEST(RowCopies, TablesThatDoNotChangeOrAreOthersAreNotPulled) {
  TableWorker frozen({}, 1, /*is_frozen=*/true);
  frozen.strategy().run([&] { fetch(frozen.model()->table, {1}); });
  EXPECT_EQ(frozen.exchanges(), 0);
  TableWorker worker;
  worker.strategy().run([&] { fetch(testing::waves(10, 16, 0.5), {1}); });
  EXPECT_EQ(worker.exchanges(), 0);
}

TEST(RowCopies, RowsThatDoNotExistAreRefusedAndTheNextRunSucceeds) {
  TableWorker worker;
  EXPECT_EQ(distribute::error_from([&] {
              worker.strategy().run([&] { fetch(worker.model()->table, {10}); });
            }).code(),
            ErrorCode::kInvalidArgument);
  worker.strategy().run([&] { fetch(worker.model()->table, {9}); });
  EXPECT_EQ(worker.exchanges(), 2);
}

}  // namespace
}  // namespace brigade::ps
