#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/comm/communicator.h"
#include "brigade/comm/local/local_group.h"
#include "brigade/comm/small_collectives.h"
#include "brigade/distribute/worker_group.h"
#include "brigade/variables/variable.h"
#include "brigade/variables/variable_store.h"

namespace brigade::distribute {

/// Which logical replica a step audits, and where its gradients are computed again.
struct AuditAssignment {
  int replica = 0;  ///< among the replicas of all workers
  int owner = 0;    ///< the worker whose replica it is
  int auditor = 0;  ///< another worker
  int host = 0;     ///< the auditor's replica on whose device: its index among the auditor's own

  friend bool operator==(const AuditAssignment&, const AuditAssignment&) = default;
};

/// The audit of step `step`, counted from 0, if every `every`-th step has one; nothing in other
/// steps. It follows from the step number alone, so all workers agree. Replicas are audited one
/// after another: N replicas in N audits. The next N audits are made by the workers after those,
/// and on other devices, so every worker audits all others. `replicas` is [worker], its number of
/// replicas; of two workers or more.
std::optional<AuditAssignment> audit_of_step(std::uint64_t step, int every,
                                             const std::vector<int>& replicas);

/// Two workers computed different gradients of the same replica: the processor or the memory of one
/// of them changes values. All workers throw it, and none has applied the step. kDataLoss: it is
/// not tried again.
///
/// Thread-safety: immutable.
class GradientMismatch : public Error {
 public:
  GradientMismatch(std::uint64_t step, const AuditAssignment& audit, std::string variable,
                   const std::string& message);
  std::uint64_t step() const noexcept { return step_; }
  const AuditAssignment& audit() const noexcept { return audit_; }
  /// The first variable whose gradient differs.
  const std::string& variable() const noexcept { return variable_; }

 private:
  std::uint64_t step_;
  AuditAssignment audit_;
  std::string variable_;
};

/// What a replica's optimizers report while its step function runs: their gradients, and that an
/// update begins.
///
/// Thread-safety: the replica's thread.
class AuditedPass {
 public:
  virtual ~AuditedPass() = default;
  /// Whether gradients must wait for `compare`, instead of being reduced during backward.
  virtual bool delays_reduction() const = 0;
  /// The gradients of a backward pass. Undefined ones are left out of the loss.
  virtual void record(std::span<const variables::Variable> variables,
                      std::span<const at::Tensor> gradients) = 0;
  /// Called before gradients are added to others: later ones of the step are not audited. Throws
  /// kFailedPrecondition for a step that one worker cannot compute again alone.
  virtual void before_update() = 0;
  /// Called after it, before gradients leave the process, or are accumulated in the replica. The
  /// first call in a step is a collective of all replicas, in which they audit. Throws
  /// GradientMismatch.
  virtual void compare() = 0;
};

/// Finds processors that compute wrong now and then: every N-th step another worker computes the
/// gradients of one logical replica again, from the same values, examples and random numbers, and
/// both compare hashes of all bits. With logical replicas these must be equal.
///
/// The gradients compared are those that the step function computes before its first update:
/// `Optimizer::minimize` of one optimizer, or `compute_gradients` of several. What the function
/// does then is not computed again. Steps that update nothing (evaluation) are not audited.
///
/// A function that is computed again must depend on nothing but its arguments, the model and the
/// random numbers of its replica: not on a value that it captured and that differs by replica.
/// Batches must come from `Strategy::distribute`. Collectives before the first update
/// (synchronized batch normalization) are refused: others would have to take part again.
///
/// Thread-safety: each pass from its replica's thread; the rest outside of replicas.
class GradientAudit {
 public:
  /// Computes the gradients of replica `audit.replica` again, on the calling replica's thread, and
  /// reports them to `pass`.
  using Again = std::function<void(const AuditAssignment& audit, AuditedPass& pass)>;

  /// `communicators`: [replica of this process]; borrowed, as `workers`' is.
  GradientAudit(std::shared_ptr<const WorkerGroup> workers, std::shared_ptr<comm::LocalGroup> group,
                const std::vector<std::unique_ptr<comm::Communicator>>& communicators, int every);
  ~GradientAudit();

  /// Begins step `step`. `again` is empty if the step's arguments cannot be made again for another
  /// worker's replica.
  void begin_step(std::uint64_t step, const variables::VariableStore& store, Again again);
  /// Whether the current step is audited, if it makes an update.
  bool is_due() const { return audit_.has_value(); }

  /// What this process's replica `replica` reports to in the current step.
  AuditedPass& pass(int replica);
  /// That replica's communicator, which notes the collectives of the step function.
  comm::Communicator& communicator(int replica);

 private:
  class Watched;
  class OwnPass;
  class SecondPass;
  void compare(int replica);
  void check_can_repeat(int replica) const;
  void compute_again();
  void exchange_digests();

  const std::shared_ptr<const WorkerGroup> workers_;
  const std::shared_ptr<comm::LocalGroup> group_;
  const int every_;
  std::vector<std::unique_ptr<Watched>> watched_;  // [replica]
  std::vector<std::unique_ptr<OwnPass>> passes_;   // [replica]
  // Of the current step:
  std::uint64_t step_ = 0;
  std::optional<AuditAssignment> audit_;
  Again again_;
  std::vector<variables::Variable> statistics_;  // variables that are not trained
  std::vector<at::Tensor> values_;  // theirs in the audited replica, at the begin of the step
  comm::Facts digests_;             // computed by this worker: a variable and the hash of its bits
  std::optional<GradientMismatch> mismatch_;
};

}  // namespace brigade::distribute
