#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "brigade/coordination/staleness_clock.h"
#include "brigade/coordination/step_decider.h"
#include "brigade/ps/parameter_service.h"

namespace brigade::ps {

/// Decides when each worker may begin its next step, in every mode: what `begin_step` says, without
/// its waiting. One gate serves a job, at `ps:0`.
///
/// It is not saved. After a restart of its server a gate begins at the last decision that the store
/// has; workers say again how far they are, and send again what they have contributed.
///
/// Thread-safety: one thread.
class StepGate {
 public:
  /// [tasks]: the names of the tasks that train, by rank. [step]: the step of the job. [last]: the
  /// last decision that is on the disk. Throws as StalenessClock and StepDecider.
  StepGate(const JobConfig& job, std::vector<std::string> tasks, std::int64_t step,
           std::optional<coordination::StepDecision> last);

  /// Counts what a worker says that it has done; saying it again changes nothing. A worker that
  /// speaks for the first time starts with the slowest. Throws kInvalidArgument, and nothing
  /// changes, for what it cannot have done. Returns whether others that waited may begin now; after
  /// a decision they may once it is confirmed.
  bool report(int worker, const BeginStepRequest& request);
  /// A life of the worker has ended or begins: nobody waits for it until it reports.
  void leave(int worker);

  /// kSync: the decision that has been made and is not on the disk yet. No worker receives it
  /// before that: if it were forgotten, another could be made, and servers would differ. Unset if
  /// there is none. Until `confirm` no worker may begin.
  const std::optional<coordination::StepDecision>& unconfirmed() const { return unconfirmed_; }
  /// The decision is on the disk, maybe with a learning rate that was given to it. One that was
  /// confirmed already changes nothing.
  void confirm(const coordination::StepDecision& decision);

  /// Whether the worker may begin a step, and for whom it waits if not. [present]: the tasks that
  /// hold leases; others are named only if the step cannot be made without them. [finished]: those
  /// that have finished their training and return no more. Throws kFailedPrecondition for a worker
  /// that has not reported since it left, and, naming them, if the worker would wait for those that
  /// have finished. Tasks that were lost are waited for: they have successors.
  BeginStepReply reply(int worker, const std::set<int>& present,
                       const std::set<int>& finished = {}) const;

 private:
  void report_finished(int worker, std::int64_t finished);
  void contribute(int worker, const coordination::StepDecider::Token& token);
  BeginStepReply bounded_reply(int worker) const;
  BeginStepReply sync_reply(int worker, const std::set<int>& present,
                            const std::set<int>& finished) const;
  void check_possible(const std::set<int>& finished) const;
  std::vector<std::string> missing_contributors(const std::set<int>& present,
                                                const std::set<int>& finished) const;

  const UpdateMode mode_;
  const std::vector<std::string> tasks_;
  coordination::StalenessClock clock_;
  coordination::StepDecider decider_;
  std::map<int, std::int64_t> finished_;  // steps that a worker has reported; those in `clock_`
  std::optional<coordination::StepDecision> unconfirmed_;
  std::optional<coordination::StepDecision> last_;  // confirmed
};

}  // namespace brigade::ps
