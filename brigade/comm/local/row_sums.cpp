#include "brigade/comm/local/row_sums.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/comm/reduction_tree.h"

namespace brigade::comm {

namespace {

bool is_strictly_ascending(const std::int64_t* indices, std::int64_t count) {
  return std::adjacent_find(indices, indices + count, std::greater_equal<>()) == indices + count;
}

/// The positions of `indices`, ordered by index and then by position.
std::vector<std::int64_t> ordered_positions(const std::int64_t* indices, std::int64_t count) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(count));
  std::iota(positions.begin(), positions.end(), 0);
  std::stable_sort(positions.begin(), positions.end(),
                   [&](std::int64_t a, std::int64_t b) { return indices[a] < indices[b]; });
  return positions;
}

/// Writes the sums of rows with equal indices one after another to `sums`.
template <class Scalar>
void add_rows(const std::vector<std::int64_t>& positions, const std::int64_t* indices,
              const Scalar* values, std::int64_t width, Scalar* sums) {
  Scalar* next = sums;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const Scalar* row = values + positions[i] * width;
    if (i == 0 || indices[positions[i]] != indices[positions[i - 1]]) {
      next = std::copy(row, row + width, next);
    } else {
      Scalar* sum = next - width;
      for (std::int64_t column = 0; column < width; ++column) sum[column] += row[column];
    }
  }
}

at::Tensor distinct_indices(const std::vector<std::int64_t>& positions,
                            const std::int64_t* indices) {
  std::vector<std::int64_t> distinct;
  for (const std::int64_t position : positions)
    if (distinct.empty() || distinct.back() != indices[position])
      distinct.push_back(indices[position]);
  const at::Tensor result = at::empty({static_cast<std::int64_t>(distinct.size())}, at::kLong);
  std::copy(distinct.begin(), distinct.end(), result.mutable_data_ptr<std::int64_t>());
  return result;
}

Rows sum_on_device(const at::Tensor& indices, const at::Tensor& values) {
  std::vector<std::int64_t> sizes = values.sizes().vec();
  sizes.front() = indices.numel() == 0 ? 0 : indices.max().item<std::int64_t>() + 1;
  const at::Tensor sums = at::sparse_coo_tensor(indices.unsqueeze(0), values, sizes).coalesce();
  return {.indices = sums._indices()[0], .values = sums._values().contiguous()};
}

bool is_defined(const Rows& rows) {
  return rows.values.defined();
}

/// A row of both is the left one's value plus the right one's.
Rows add_two_parts(const Rows& left, const Rows& right) {
  if (!is_defined(right)) return left;
  if (!is_defined(left)) return right;
  return sum_by_index(at::cat({left.indices, right.indices}), at::cat({left.values, right.values}));
}

}  // namespace

Rows sum_by_index(const at::Tensor& indices, const at::Tensor& values) {
  if (!values.is_cpu()) return sum_on_device(indices, values);
  const at::Tensor keys = indices.contiguous();
  const std::int64_t count = keys.numel();
  const auto* key = keys.const_data_ptr<std::int64_t>();
  if (is_strictly_ascending(key, count)) return {.indices = keys, .values = values.contiguous()};
  const std::vector<std::int64_t> positions = ordered_positions(key, count);
  const bool is_wide = values.scalar_type() == at::kDouble;
  const at::Tensor rows = values.to(is_wide ? at::kDouble : at::kFloat).contiguous();
  Rows result{.indices = distinct_indices(positions, key), .values = {}};
  std::vector<std::int64_t> sizes = values.sizes().vec();
  sizes.front() = result.indices.numel();
  const at::Tensor sums = at::empty(sizes, rows.options());
  const std::int64_t width = rows.numel() / count;  // not ascending, so there are some
  if (is_wide) {
    add_rows(positions, key, rows.const_data_ptr<double>(), width, sums.mutable_data_ptr<double>());
  } else {
    add_rows(positions, key, rows.const_data_ptr<float>(), width, sums.mutable_data_ptr<float>());
  }
  result.values = sums.to(values.scalar_type());
  return result;
}

Rows sum_rows(std::span<const Rows> parts) {
  const auto first = std::ranges::find_if(parts, is_defined);
  const bool widens = first->values.is_cpu();
  std::vector<Rows> wide;
  for (const Rows& part : parts) {
    wide.push_back(part);
    if (is_defined(part) && widens) wide.back().values = to_accumulation_dtype(part.values);
  }
  Rows sum = ReductionTree(static_cast<int>(parts.size()))
                 .evaluate(std::span<const Rows>(wide), add_two_parts);
  sum.values = sum.values.to(first->values.scalar_type());
  return sum;
}

at::Tensor to_sparse(const Rows& rows, at::IntArrayRef sizes) {
  return at::sparse_coo_tensor(rows.indices.unsqueeze(0), rows.values, sizes, {},
                               /*is_coalesced=*/true);
}

bool has_rows(const at::Tensor& gradient) {
  return gradient.defined() && gradient.layout() == at::kSparse && gradient.sparse_dim() == 1;
}

Rows rows_of(const at::Tensor& sparse) {
  const at::Tensor indices = sparse._indices()[0];
  if (!sparse.is_coalesced()) return sum_by_index(indices, sparse._values());
  return {.indices = indices.contiguous(), .values = sparse._values().contiguous()};
}

}  // namespace brigade::comm
