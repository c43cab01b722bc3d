#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "brigade/distribute/worker_group.h"
#include "brigade/optim/moving_average.h"
#include "brigade/optim/optimizer_state.h"
#include "brigade/variables/variable_store.h"

namespace brigade::distribute {

/// The variables and slots of the workers of a pipeline, of which each changes those of its stages.
/// Brings them together again: what one worker has changed since the last time is copied to the
/// others. What all have changed alike (counters, metrics) stays.
///
/// Thread-safety: one thread, outside of runs.
class StageState {
 public:
  StageState(std::shared_ptr<const WorkerGroup> workers,
             std::shared_ptr<optim::OptimizerState> state, const variables::VariableStore* store);

  /// What there is now is equal in all workers: changes are counted from here. Only the first call
  /// has an effect.
  void begin();
  /// The same, with an effect in each call.
  void begin_again();
  /// `owners`: [variable of the optimizer], the worker whose stages train it, or -1. Statistics
  /// that several workers have changed are those of the worker that owns the trained variables of
  /// the same module, or of the smallest one around it. A collective of the workers. Throws
  /// kFailedPrecondition, naming the variable, if several have changed one to other values, and no
  /// single worker owns it.
  void exchange(const std::vector<int>& owners);
  /// Averages that each worker has of its own values: those of a variable are of its owner. A
  /// collective of the workers.
  void exchange(const optim::ExponentialMovingAverage& averages,
                const std::vector<int>& owners) const;

 private:
  /// A tensor that is exchanged as a whole.
  struct Item {
    std::string name;  // of its variable
    at::Tensor value;  // to read
    std::function<void(const at::Tensor&)> write;
  };

  std::vector<Item> items() const;
  int owner_of(const std::string& name, const std::vector<int>& owners) const;
  void exchange_steps() const;

  const std::shared_ptr<const WorkerGroup> workers_;
  const std::shared_ptr<optim::OptimizerState> state_;
  const variables::VariableStore* const store_;
  std::vector<std::string> known_;  // [item]: the hashes when all were equal
};

}  // namespace brigade::distribute
