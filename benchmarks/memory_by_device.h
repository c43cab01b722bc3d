#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "brigade/optim/optimizer_state.h"

namespace brigade::benchmarks {

/// MiB of trained variables and optimizer slots on each device, each piece of memory counted once.
inline std::map<std::string, double> memory_by_device(const optim::OptimizerState& state) {
  std::map<std::string, double> mebibytes;
  std::set<const void*> seen;
  const auto count = [&](const at::Tensor& tensor) {
    if (!seen.insert(tensor.storage().unsafeGetStorageImpl()).second) return;
    mebibytes[tensor.device().str()] += static_cast<double>(tensor.storage().nbytes()) / (1 << 20);
  };
  const auto slots = state.rule().slots().size();
  for (std::size_t i = 0; i < state.variables().size(); ++i) {
    const variables::Variable& variable = state.variables()[i];
    for (int replica = 0; replica < variable.num_components(); ++replica) {
      count(variable.storage()->master(replica));
      count(variable.component(replica));
      for (std::size_t slot = 0; slot < slots; ++slot) count(state.slot(i, slot, replica));
    }
  }
  return mebibytes;
}

}  // namespace brigade::benchmarks
