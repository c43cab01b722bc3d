#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "brigade/coordination/push_ledger.h"
#include "brigade/coordination/step_decider.h"
#include "brigade/io/state_tree.h"
#include "brigade/optim/update_rule.h"
#include "brigade/ps/store/gradient_offers.h"

namespace brigade::ps {

/// What a server keeps besides its variables. Small, since copies share tensors: a change is made
/// to a copy, which becomes the state once the log has the change.
///
/// Thread-safety: one thread.
struct StoreState {
  optim::UpdateRulePtr rule;  ///< null: nothing was created
  io::StateTree job;
  double learning_rate = 0;
  bool is_ready = false;
  std::int64_t step = 0;
  coordination::PushLedger ledger;
  std::map<int, std::int64_t> finished;  ///< the incarnations of workers that have finished
  std::optional<coordination::StepDecision> last_decision;
  GradientOffers offers;

  /// Each of these is a change of the log; they throw as PushLedger.
  void admit(int worker, std::int64_t incarnation);
  /// An incarnation that was replaced changes nothing.
  void finish(int worker, std::int64_t incarnation);
  void count_push(const coordination::PushId& id);
  /// Counts it, and drops it if its step was decided.
  void keep_offer(const coordination::PushId& id, GradientOffers::Offer offer);
  void finish_step(const coordination::StepDecision& decision);
  /// A restore: the next step is `first`.
  void begin_at(std::int64_t first);
};

}  // namespace brigade::ps
