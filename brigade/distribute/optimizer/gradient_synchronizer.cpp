#include "brigade/distribute/optimizer/gradient_synchronizer.h"

#include <ATen/ops/empty.h>

namespace brigade::distribute {

std::vector<bool> present(std::span<const at::Tensor> gradients) {
  std::vector<bool> known(gradients.size(), false);
  merge_present(known, gradients);
  return known;
}

void merge_present(std::vector<bool>& known, std::span<const at::Tensor> gradients) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined()) known[i] = true;
  }
}

std::vector<bool> present_anywhere(comm::Communicator& communicator,
                                   std::span<const at::Tensor> gradients) {
  std::vector<bool> known = present(gradients);
  if (communicator.world_size() == 1) return known;
  const at::Tensor flags = at::empty({static_cast<std::int64_t>(known.size())}, at::kInt);
  int* flag = flags.mutable_data_ptr<int>();
  for (std::size_t i = 0; i < known.size(); ++i) flag[i] = known[i] ? 1 : 0;
  communicator.all_reduce({&flags, 1}, comm::ReduceOp::kMax)->wait();
  for (std::size_t i = 0; i < known.size(); ++i) known[i] = flag[i] != 0;
  return known;
}

void mark_updated(const optim::OptimizerState& state, const std::vector<bool>& known, int replica) {
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i] && !state.is_frozen(i)) state.variables()[i].mark_updated(replica);
  }
}

}  // namespace brigade::distribute
