#include "brigade/distribute/optimizer/sum_of_replicas.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "brigade/comm/local/row_sums.h"
#include "brigade/distribute/optimizer/gradient_accumulator.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/strategy.h"
#include "brigade/optim/sgd.h"
#include "brigade/variables/row_source.h"

namespace brigade::distribute {
namespace {

at::Tensor rows_gradient(std::vector<std::int64_t> indices, double value) {
  const auto count = static_cast<std::int64_t>(indices.size());
  return comm::to_sparse({.indices = at::tensor(indices, at::kLong),
                          .values = at::full({count, 2}, value, at::kFloat)},
                         {4, 2});
}

TEST(RowGradients, TheirSumHasTheRowsOfAllReplicas) {
  const std::vector<at::Tensor> parts = {rows_gradient({0, 2}, 1), rows_gradient({2, 3}, 2)};
  const at::Tensor sum = sum_of_replicas(parts);
  ASSERT_TRUE(comm::has_rows(sum));
  EXPECT_TRUE(at::equal(sum.to_dense().select(1, 0), at::tensor({1.0, 0.0, 3.0, 2.0}, at::kFloat)));
}

TEST(RowGradients, TheSumWithADenseOneIsDense) {
  const std::vector<at::Tensor> parts = {rows_gradient({0}, 1), at::ones({4, 2})};
  const at::Tensor sum = sum_of_replicas(parts);
  EXPECT_EQ(sum.layout(), at::kStrided);
  EXPECT_TRUE(at::equal(sum.select(1, 0), at::tensor({2.0, 1.0, 1.0, 1.0}, at::kFloat)));
}

struct EmbeddingTable : torch::nn::Module {
  EmbeddingTable() : rows(register_parameter("rows", at::zeros({4, 2}))) {}
  at::Tensor rows;
};

TEST(RowGradients, MicroBatchesOfRowsAreAddedAsRows) {
  OneDeviceStrategy strategy("cpu:0");
  const auto model = strategy.create<EmbeddingTable>();
  const auto sgd = strategy.optimizer(model, optim::Sgd{});
  GradientAccumulator accumulator(sgd.state(), 0);
  accumulator.add(to_parts(std::vector{rows_gradient({1}, 2)}), 1, 0);
  accumulator.add(to_parts(std::vector{rows_gradient({0, 1}, 4)}), 1, 0);
  const at::Tensor half = accumulator.divided(2).front();
  ASSERT_TRUE(comm::has_rows(half));
  EXPECT_TRUE(
      at::equal(half.to_dense().select(1, 0), at::tensor({2.0, 3.0, 0.0, 0.0}, at::kFloat)));
  accumulator.clear();
  EXPECT_FALSE(accumulator.divided(1).front().defined());
  accumulator.add(to_parts(std::vector{rows_gradient({3}, 1)}), 1, 0);
  accumulator.add(to_parts(std::vector{at::ones({4, 2})}), 1, 0);
  EXPECT_TRUE(at::equal(accumulator.divided(1).front().select(1, 0),
                        at::tensor({1.0, 1.0, 1.0, 2.0}, at::kFloat)));
}

TEST(RowGradients, TheAverageOfTowersRowsHasRows) {
  OneDeviceStrategy strategy("cpu:0");
  const auto model = strategy.create<EmbeddingTable>();
  const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 1});
  const auto& variables = sgd.state().variables();
  const auto tower = [&](std::vector<std::int64_t> rows, double value) {
    return Gradients(variables, {rows_gradient(std::move(rows), value)}, GradientState::kLocal, 0);
  };
  const PerReplica<Gradients> towers({tower({0, 1}, 2), tower({1}, 4)});
  const Gradients mean = average_gradients(towers);
  ASSERT_TRUE(comm::has_rows(mean[0]));
  EXPECT_TRUE(
      at::equal(mean[0].to_dense().select(1, 0), at::tensor({1.0, 3.0, 0.0, 0.0}, at::kFloat)));
  sgd.apply_gradients(mean);
  EXPECT_TRUE(at::equal(model.variables()[0].read().select(1, 0),
                        at::tensor({-1.0, -3.0, 0.0, 0.0}, at::kFloat)))
      << "made dense where it is applied";
}

/// Takes rows, and notes what it is asked for.
class RowSynchronizer final : public GradientSynchronizer {
 public:
  struct Notes {
    std::vector<at::Tensor> applied;
    std::vector<std::pair<int, at::Tensor>> fetched;
  };
  explicit RowSynchronizer(std::shared_ptr<Notes> notes) : notes_(std::move(notes)) {}
  void apply(int, std::span<const at::Tensor> gradients, GradientState) override {
    notes_->applied.assign(gradients.begin(), gradients.end());
  }
  std::vector<at::Tensor> aggregate(int, std::span<const at::Tensor> gradients) override {
    return {gradients.begin(), gradients.end()};
  }
  bool takes_rows() const override { return true; }
  void fetch_rows(int replica, std::span<const variables::WantedRows> wanted) override {
    for (const auto& [table, ids] : wanted) notes_->fetched.emplace_back(replica, ids);
  }

 private:
  const std::shared_ptr<Notes> notes_;
};

struct RowStrategy : Strategy {
  explicit RowStrategy(const std::shared_ptr<RowSynchronizer::Notes>& notes)
      : Strategy({.name = "rows",
                  .devices = choose_devices({"cpu:0"}, {}),
                  .synchronizer = [notes](const SynchronizerContext&) {
                    return std::make_unique<RowSynchronizer>(notes);
                  }}) {}
};

TEST(RowGradients, ReachASynchronizerThatTakesThemCoalesced) {
  const auto notes = std::make_shared<RowSynchronizer::Notes>();
  RowStrategy strategy(notes);
  const auto model = strategy.create<EmbeddingTable>();
  const auto sgd = strategy.optimizer(model, optim::Sgd{});
  strategy.run([&] {
    const at::Tensor ids = at::tensor({3, 1, 3}, at::kLong);
    const std::vector<variables::WantedRows> wanted = {{.table = model->rows, .ids = ids}};
    variables::fetch_rows(wanted);
    sgd.minimize(at::embedding(model->rows, ids, -1, false, /*sparse=*/true).sum(),
                 LossScale::kSum);
  });
  ASSERT_EQ(notes->fetched.size(), 1u);
  EXPECT_EQ(notes->fetched[0].first, 0);
  EXPECT_EQ(notes->fetched[0].second.numel(), 3);
  ASSERT_TRUE(comm::has_rows(notes->applied.at(0)));
  EXPECT_TRUE(notes->applied[0].is_coalesced());
  EXPECT_TRUE(at::equal(comm::rows_of(notes->applied[0]).indices, at::tensor({1, 3}, at::kLong)));
  EXPECT_TRUE(at::equal(notes->applied[0].to_dense().select(1, 0),
                        at::tensor({0.0, 1.0, 0.0, 2.0}, at::kFloat)));
}

TEST(RowGradients, OutsideOfReplicasNothingIsFetched) {
  const auto notes = std::make_shared<RowSynchronizer::Notes>();
  RowStrategy strategy(notes);
  const auto model = strategy.create<EmbeddingTable>();
  const auto sgd = strategy.optimizer(model, optim::Sgd{});
  const std::vector<variables::WantedRows> wanted = {
      {.table = model.replica(0).rows, .ids = at::tensor({1}, at::kLong)}};
  variables::fetch_rows(wanted);
  EXPECT_TRUE(notes->fetched.empty());
}

}  // namespace
}  // namespace brigade::distribute
