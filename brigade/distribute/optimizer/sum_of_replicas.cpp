#include "brigade/distribute/optimizer/sum_of_replicas.h"

#include <algorithm>
#include <vector>

#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/comm/local/row_sums.h"

namespace brigade::distribute {

at::Tensor sum_of_replicas(std::span<const at::Tensor> gradients) {
  const auto first = std::ranges::find_if(gradients, &at::Tensor::defined);
  if (std::ranges::count_if(gradients, &at::Tensor::defined) == 1) return *first;
  const auto is_dense = [](const at::Tensor& each) {
    return each.defined() && !comm::has_rows(each);
  };
  if (std::ranges::none_of(gradients, is_dense)) {
    std::vector<comm::Rows> parts;
    for (const at::Tensor& each : gradients)
      parts.push_back(each.defined() ? comm::rows_of(each) : comm::Rows{});
    return comm::to_sparse(comm::sum_rows(parts), first->sizes());
  }
  std::vector<at::Tensor> dense;
  for (const at::Tensor& each : gradients)
    dense.push_back(comm::has_rows(each) ? each.to_dense() : each);
  return comm::combine_by_tree(dense, comm::ReduceOp::kSum);
}

}  // namespace brigade::distribute
