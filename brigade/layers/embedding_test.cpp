#include "brigade/layers/embedding.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <functional>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/comm/local/row_sums.h"
#include "brigade/layers/embedding_lookup.h"
#include "brigade/variables/graph.h"
#include "brigade/variables/row_source.h"
#include "brigade/variables/variable_scope.h"

namespace brigade::layers {
namespace {

at::Tensor id_list(std::vector<std::int64_t> ids) {
  return at::tensor(ids, at::kLong);
}

/// The gradient of the sum of `rows` times these weights.
at::Tensor table_gradient(const at::Tensor& rows, const at::Tensor& weights,
                          const at::Tensor& table) {
  return torch::autograd::grad({(rows * weights).sum()}, {table}).front();
}

TEST(EmbeddingLookup, ReturnsTheRowsOfIdsOfAnyShape) {
  const at::Tensor table = at::rand({6, 3});
  const at::Tensor ids = id_list({5, 0, 2, 5}).view({2, 2});
  const at::Tensor rows = embedding_lookup(table, ids);
  EXPECT_EQ(rows.sizes(), (std::vector<std::int64_t>{2, 2, 3}));
  EXPECT_TRUE(at::equal(rows, table.index_select(0, ids.reshape({-1})).view({2, 2, 3})));
  EXPECT_TRUE(at::equal(embedding_lookup(table, ids.to(at::kInt)), rows));
  EXPECT_EQ(embedding_lookup(table, id_list({})).sizes(), (std::vector<std::int64_t>{0, 3}));
}

TEST(EmbeddingLookup, ItsGradientHasTheRowsOfTheBatchEachOnce) {
  const at::Tensor table = at::rand({100, 3}).set_requires_grad(true);
  const at::Tensor ids = id_list({7, 90, 7, 3});
  const at::Tensor weights = at::rand({4, 3});
  const at::Tensor gradient = table_gradient(embedding_lookup(table, ids), weights, table);
  ASSERT_TRUE(comm::has_rows(gradient));
  EXPECT_TRUE(at::equal(comm::rows_of(gradient).indices, id_list({3, 7, 90})));
  const at::Tensor dense = table_gradient(table.index_select(0, ids), weights, table);
  EXPECT_TRUE(at::equal(gradient.to_dense(), dense));
}

TEST(EmbeddingLookup, ATableInPartsGivesTheSameRowsAndGradients) {
  const at::Tensor ids = id_list({6, 0, 3, 6, 2, 0});
  const at::Tensor weights = at::rand({6, 2});
  const at::Tensor table = at::rand({7, 2}).set_requires_grad(true);
  std::vector<at::Tensor> parts;
  for (const auto& [begin, rows] : {std::pair{0, 3}, {3, 1}, {4, 3}})
    parts.push_back(table.detach().narrow(0, begin, rows).clone().set_requires_grad(true));
  const at::Tensor rows = embedding_lookup(parts, ids);
  EXPECT_TRUE(at::equal(rows, embedding_lookup(table, ids)));
  const auto of_parts =
      torch::autograd::grad({(rows * weights).sum()}, {parts[0], parts[1], parts[2]});
  std::vector<at::Tensor> dense;
  for (const at::Tensor& each : of_parts) {
    ASSERT_TRUE(comm::has_rows(each));
    dense.push_back(each.to_dense());
  }
  EXPECT_TRUE(at::equal(at::cat(dense),
                        table_gradient(embedding_lookup(table, ids), weights, table).to_dense()));
}

TEST(EmbeddingLookup, APartWithoutIdsHasAGradientOfNoRows) {
  const std::vector<at::Tensor> parts = {at::rand({2, 2}).set_requires_grad(true),
                                         at::rand({2, 2}).set_requires_grad(true)};
  const at::Tensor rows = embedding_lookup(parts, id_list({1, 0}));
  const auto gradients = torch::autograd::grad({rows.sum()}, {parts[0], parts[1]});
  EXPECT_EQ(comm::rows_of(gradients[0]).indices.numel(), 2);
  EXPECT_EQ(comm::rows_of(gradients[1]).indices.numel(), 0);
}

TEST(EmbeddingLookup, RefusesIdsThatTheTableDoesNotHave) {
  const at::Tensor table = at::rand({4, 2});
  EXPECT_THROW(embedding_lookup(table, id_list({0, 4})), Error);
  EXPECT_THROW(embedding_lookup(table, id_list({-1})), Error);
  EXPECT_THROW(embedding_lookup(table, at::rand({2})), Error);
  EXPECT_THROW(embedding_lookup(table, at::Tensor()), Error);
  EXPECT_THROW(embedding_lookup(std::vector<at::Tensor>{}, id_list({0})), Error);
  EXPECT_THROW(embedding_lookup(std::vector{table, at::rand({4, 3})}, id_list({0})), Error);
}

/// Fills the rows that are fetched with their numbers.
class NumberingSource final : public variables::RowSource {
 public:
  void fetch(std::span<const variables::WantedRows> wanted) override {
    const at::NoGradGuard no_grad;
    ++calls;
    for (const auto& [table, ids] : wanted)
      table.index_copy_(
          0, ids, ids.to(table.scalar_type()).unsqueeze(1).expand({ids.size(0), table.size(1)}));
  }
  int calls = 0;
};

TEST(EmbeddingLookup, FetchesTheRowsThatItReadsAllPartsInOneCall) {
  NumberingSource source;
  const base::AmbientScope<variables::RowSource> scope(variables::kRowSourceSlot, &source);
  const std::vector<at::Tensor> parts = {at::zeros({3, 1}), at::zeros({3, 1})};
  const at::Tensor rows = embedding_lookup(parts, id_list({4, 2, 1}));
  EXPECT_TRUE(at::equal(rows.view({-1}), at::tensor({1.0, 2.0, 1.0}, at::kFloat)));
  EXPECT_EQ(source.calls, 1);
  EXPECT_EQ(parts[0][0].item<float>(), 0) << "no other row is fetched";
}

TEST(EmbeddingLookup, SeveralLookupsAreFetchedInOneCall) {
  NumberingSource source;
  const base::AmbientScope<variables::RowSource> scope(variables::kRowSourceSlot, &source);
  const std::vector<at::Tensor> divided = {at::zeros({3, 1}), at::zeros({3, 1})};
  const std::vector<at::Tensor> whole = {at::zeros({6, 1})};
  prefetch_rows({{divided, id_list({4, 2})}, {whole, id_list({5})}});
  EXPECT_EQ(source.calls, 1);
  EXPECT_EQ(divided[1][1].item<float>(), 1);
  EXPECT_EQ(whole[0][5].item<float>(), 5);
  EXPECT_THROW(prefetch_rows({{whole, id_list({6})}}), Error);
}

TEST(EmbeddingLookup, TakesVariablesByNamePartitionedOrNot) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  const auto whole = variables::get_partitioned_variable("whole", {{5, 2}});
  const auto divided = variables::get_partitioned_variable(
      "divided", {{5, 2}}, {.partitioner = variables::fixed_size_partitioner(2)});
  for (const auto& table : {whole, divided})
    EXPECT_TRUE(at::equal(embedding_lookup(table, id_list({4, 0})),
                          table.value().index_select(0, id_list({4, 0}))));
  const auto columns = variables::get_partitioned_variable(
      "columns", {{5, 2}}, {.partitioner = variables::fixed_size_partitioner(2, 1)});
  EXPECT_THROW(embedding_lookup(columns, id_list({0})), Error);
}

TEST(Embedding, ItsInitialValuesDoNotDependOnItsPartitions) {
  torch::manual_seed(3);
  Embedding whole({.vocabulary_size = 10, .embedding_dim = 4});
  torch::manual_seed(3);
  Embedding divided({.vocabulary_size = 10, .embedding_dim = 4, .partitions = 3});
  const at::Tensor all = at::arange(10, at::kLong);
  EXPECT_TRUE(at::equal(whole.forward(all), divided.forward(all)));
  EXPECT_LT(whole.forward(all).abs().max().item<float>(), 0.06);
  EXPECT_NE(whole.forward(all)[0][0].item<float>(), whole.forward(all)[1][0].item<float>());
}

TEST(Embedding, HasOneParameterForEachPartition) {
  Embedding whole({.vocabulary_size = 10, .embedding_dim = 4});
  EXPECT_EQ(whole.named_parameters().keys(), (std::vector<std::string>{"weight"}));
  Embedding divided({.vocabulary_size = 10, .embedding_dim = 4, .partitions = 3});
  EXPECT_EQ(divided.named_parameters().keys(),
            (std::vector<std::string>{"weight_0", "weight_1", "weight_2"}));
  EXPECT_EQ(divided.parts().front().size(0), 4);
}

TEST(Embedding, RefusesOptionsThatMakeNoTable) {
  EXPECT_THROW(Embedding({.embedding_dim = 4}), Error);
  EXPECT_THROW(Embedding({.vocabulary_size = 4}), Error);
  EXPECT_THROW(Embedding({.vocabulary_size = 2, .embedding_dim = 1, .partitions = 3}), Error);
  EXPECT_THROW(Embedding({.vocabulary_size = 2, .embedding_dim = 1, .dtype = at::kLong}), Error);
}

}  // namespace
}  // namespace brigade::layers
