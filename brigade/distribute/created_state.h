#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "brigade/concurrency/mutex.h"
#include "brigade/io/state_tree.h"
#include "brigade/variables/variable.h"

namespace brigade::distribute {

/// How to save and restore an object that was created in a strategy: an iterator or a metric. The
/// object owns it.
struct CreatedState {
  /// A metric's; empty for an iterator.
  std::string name = {};
  std::function<io::StateTree()> save;
  std::function<void(const io::StateTree&)> restore;
  /// A metric's sums.
  std::vector<variables::Variable> variables = {};
};

/// The states of the objects of a strategy that still exist, so that a training session finds them.
///
/// Thread-safety: any thread.
class CreatedStates {
 public:
  void add(const std::shared_ptr<const CreatedState>& state) {
    const concurrency::MutexLock lock(mutex_);
    std::erase_if(states_, [](const auto& known) { return known.expired(); });
    states_.push_back(state);
  }
  /// In the order of their creation.
  std::vector<std::shared_ptr<const CreatedState>> living() const {
    const concurrency::MutexLock lock(mutex_);
    std::vector<std::shared_ptr<const CreatedState>> living;
    for (const auto& state : states_) {
      if (auto alive = state.lock()) living.push_back(std::move(alive));
    }
    return living;
  }

 private:
  mutable concurrency::Mutex mutex_;
  std::vector<std::weak_ptr<const CreatedState>> states_ BRIGADE_GUARDED_BY(mutex_);
};

}  // namespace brigade::distribute
