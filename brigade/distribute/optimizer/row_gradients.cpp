#include "brigade/distribute/optimizer/row_gradients.h"

#include <algorithm>
#include <vector>

#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/comm/local/row_sums.h"

namespace brigade::distribute {

at::Tensor sum_of_replicas(std::span<const at::Tensor> gradients) {
  if (gradients.size() == 1) return gradients.front();
  if (std::ranges::all_of(gradients, comm::has_rows)) {
    std::vector<comm::Rows> parts;
    for (const at::Tensor& each : gradients) parts.push_back(comm::rows_of(each));
    return comm::to_sparse(comm::sum_rows(parts), gradients.front().sizes());
  }
  std::vector<at::Tensor> dense;
  for (const at::Tensor& each : gradients)
    dense.push_back(comm::has_rows(each) ? each.to_dense() : each);
  return comm::combine_in_order(dense, comm::ReduceOp::kSum);
}

}  // namespace brigade::distribute
