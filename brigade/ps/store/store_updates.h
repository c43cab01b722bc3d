#pragma once

#include <vector>

#include "brigade/ps/store/parameter_store.h"

/// Shared by the files of ParameterStore.
namespace brigade::ps {

/// Updates of variables that are in the log and remain to be made, in this order.
struct ParameterStore::Updates {
  struct Update {
    Parameter* parameter = nullptr;
    optim::Hyperparameters hyperparameters;
    std::vector<VariableGradient> gradients;  // to be added, in this order
  };
  optim::UpdateRulePtr rule;
  std::vector<Update> updates;
  ParameterTickets tickets;
};

/// Makes a change of values that is in the log.
template <class Function>
void ParameterStore::change_values(const Function& change) {
  try {
    change();
  } catch (...) {
    const concurrency::MutexLock lock(order_);
    has_failed_ = true;
    throw;
  }
}

}  // namespace brigade::ps
