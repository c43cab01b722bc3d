#include "brigade/comm/local/row_sums.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <vector>

#include "brigade/comm/local/reduce_kernel.h"

namespace brigade::comm {
namespace {

at::Tensor index_list(std::vector<std::int64_t> indices) {
  return at::tensor(indices, at::kLong);
}

at::Tensor dense_of(const Rows& rows, std::int64_t table_rows) {
  std::vector<std::int64_t> sizes = rows.values.sizes().vec();
  sizes.front() = table_rows;
  const at::Tensor dense = at::zeros(sizes, rows.values.options());
  dense.index_copy_(0, rows.indices, rows.values);
  return dense;
}

TEST(RowSums, RowsOfOneIndexAreAddedInTheirOrder) {
  // 1e8 + 1 - 1e8 in float32 is 0 in this order, and 1 in another.
  const at::Tensor values = at::tensor({1e8, 5.0, 1.0, -1e8}, at::kFloat).view({4, 1});
  const Rows sums = sum_by_index(index_list({7, 2, 7, 7}), values);
  EXPECT_TRUE(at::equal(sums.indices, index_list({2, 7})));
  EXPECT_TRUE(at::equal(sums.values, at::tensor({5.0, 0.0}, at::kFloat).view({2, 1})));
}

TEST(RowSums, IndicesThatAscendAreTakenAsTheyAre) {
  const at::Tensor values = at::rand({3, 2});
  const Rows sums = sum_by_index(index_list({1, 4, 9}), values);
  EXPECT_TRUE(sums.values.is_same(values));
  EXPECT_EQ(sum_by_index(index_list({}), at::rand({0, 2})).values.size(0), 0);
}

TEST(RowSums, HaveTheBitsOfDenseSums) {
  constexpr std::int64_t kTable = 50;
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    std::vector<Rows> parts;
    std::vector<at::Tensor> dense;
    for (int part = 0; part < 4; ++part) {
      const at::Tensor ids = at::randint(kTable, {30}, at::kLong);
      parts.push_back(
          sum_by_index(ids, at::rand({30, 3, 2}).sub(0.5).mul(part == 1 ? 1e4 : 1).to(dtype)));
      dense.push_back(dense_of(parts.back(), kTable));
    }
    const Rows sum = sum_rows(parts);
    EXPECT_TRUE(at::equal(dense_of(sum, kTable), combine_by_tree(dense, ReduceOp::kSum))) << dtype;
    parts[1] = {};
    dense[1].reset();
    EXPECT_TRUE(
        at::equal(dense_of(sum_rows(parts), kTable), combine_by_tree(dense, ReduceOp::kSum)))
        << dtype << " without one part";
  }
}

TEST(RowSums, NarrowTypesAreRoundedOnce) {
  // In bfloat16 256 + 1 is 256, so adding one by one would stay there.
  const at::Tensor values = at::tensor({256.0, 1.0, 1.0}).to(at::kBFloat16).view({3, 1});
  const Rows sums = sum_by_index(index_list({3, 3, 3}), values);
  EXPECT_EQ(sums.values.item<double>(), 258);
}

TEST(RowSums, SparseTensorsGoThereAndBack) {
  const Rows rows{.indices = index_list({0, 3}), .values = at::rand({2, 4})};
  const at::Tensor sparse = to_sparse(rows, {5, 4});
  EXPECT_TRUE(has_rows(sparse) && sparse.is_coalesced());
  EXPECT_TRUE(at::equal(sparse.to_dense(), dense_of(rows, 5)));
  EXPECT_TRUE(at::equal(rows_of(sparse).indices, rows.indices));
  EXPECT_TRUE(at::equal(rows_of(sparse).values, rows.values));
  EXPECT_FALSE(has_rows(at::rand({5, 4})));
  EXPECT_FALSE(has_rows(at::rand({5, 4}).to_sparse())) << "of elements, not of rows";
  EXPECT_FALSE(has_rows({}));
}

TEST(RowSums, ASparseTensorThatRepeatsRowsIsAdded) {
  const at::Tensor sparse =
      to_sparse({.indices = index_list({1}), .values = at::rand({1, 2})}, {3, 2});
  const Rows rows = rows_of(sparse + sparse);
  EXPECT_TRUE(at::equal(rows.indices, index_list({1})));
  EXPECT_TRUE(at::equal(rows.values, rows_of(sparse).values * 2));
}

}  // namespace
}  // namespace brigade::comm
