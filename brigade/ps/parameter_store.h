#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/coordination/push_ledger.h"
#include "brigade/coordination/step_decider.h"
#include "brigade/coordination/update_log.h"
#include "brigade/io/file_system.h"
#include "brigade/optim/update_rule.h"
#include "brigade/ps/parameter.h"
#include "brigade/ps/update_record.h"

namespace brigade::ps {

/// A variable as the chief creates it.
struct Creation {
  std::string name;
  at::Tensor value;  ///< on the CPU
  bool is_trainable = true;
  /// Of its parameter group; unset: the rule's, and `ParameterStore::set_learning_rate`'s.
  std::optional<double> learning_rate = std::nullopt;
  std::optional<double> weight_decay = std::nullopt;
};

/// A variable with everything that a checkpoint has of it.
struct NamedState {
  std::string name;
  Parameter::State state;
};

struct ParameterStoreOptions {
  /// The server's folder, created if it is missing. One store at a time may use it: a server holds
  /// an `io::LockFile` in it.
  io::Path folder;
  coordination::UpdateLogOptions log = {};
};

/// The state of a parameter server: variables and optimizer slots by name, the update rule, and
/// which pushes were applied. It knows nothing of models, and nothing of networks: the server calls
/// it.
///
/// Every change is in the log, on the disk, before its call returns. A store that is opened after a
/// crash has all changes whose calls returned, none twice, and the same bits. A pull may see
/// changes whose calls have not returned; after a crash these may be gone, or be made again in
/// another order. If an update fails in the middle (memory ran out), the store throws
/// kFailedPrecondition from then on: opened again, it is whole.
///
/// Thread-safety: all functions from any thread. Changes have one order, that of the log, for all
/// variables; changes of different variables run at the same time.
class ParameterStore {
 public:
  using Time = coordination::UpdateLog::Time;

  /// Opens the store in `options.folder`: loads the newest complete snapshot, then applies the log
  /// after it. An empty folder is an empty store. Throws kDataLoss if updates are missing, and as
  /// the file system.
  ParameterStore(std::shared_ptr<io::FileSystem> files, ParameterStoreOptions options);
  ~ParameterStore();
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  /// Whether `create` was called: before that there is nothing to pull.
  bool is_created() const;
  /// Creates all variables, and the rule that updates them. The same call again, by a chief that
  /// did not get the answer, or that was restarted, changes nothing. Together the values are one
  /// record of the log. Throws kInvalidArgument for two variables of one name, a trainable variable
  /// that is not of floating point, and a rule that `optim::rule_from_config` cannot make;
  /// kAlreadyExists if the store has other variables (names, shapes,
  /// dtypes) or another rule. Throws as `push` at `deadline`.
  /// `job` is kept with them, for `job()`; it has to be equal, too.
  void create(std::span<const Creation> variables, const optim::UpdateRulePtr& rule,
              const io::StateTree& job, Time deadline);
  /// What `create` was given; null before it.
  io::StateTree job() const;

  /// Sets these variables with their slots and numbers of updates, and the step: a restore. Throws
  /// kNotFound and kInvalidArgument, as `push`, before anything is changed; kFailedPrecondition
  /// after `set_ready`.
  void assign(std::span<const NamedState> variables, std::int64_t step, Time deadline);
  /// The variables are initialized or restored: workers may use them. Saved like any change.
  void set_ready(Time deadline);
  bool is_ready() const;

  /// The learning rate of the next pushes. Throws kInvalidArgument if it is negative.
  void set_learning_rate(double rate, Time deadline);
  double learning_rate() const;

  /// Fences pushes of the worker's earlier incarnations (see `coordination::PushLedger`).
  void admit(int worker, std::int64_t incarnation, Time deadline);

  struct Pulled {
    std::vector<Parameter::Reading> values;
    std::int64_t step = 0;  ///< at the same moment
  };
  /// The values of these variables, in this order, all from one moment between two changes. Throws
  /// kNotFound naming a variable that the store does not have.
  Pulled pull(std::span<const std::string> names) const;

  /// Applies a push: one update of each variable that has a gradient here. Returns kApply if it was
  /// applied, and kDuplicate if it had been; both only once it is on the disk. kGap and kFenced
  /// change nothing. Throws kInvalidArgument, before anything is changed, for a gradient whose
  /// shape or dtype differs from its variable's, that occurs twice, or whose variable is not
  /// trainable; kNotFound for a variable that the store does not have, kFailedPrecondition before
  /// `create`; kDeadlineExceeded if the
  /// disk took longer than `deadline`: then it may have been applied, and pushing it again gives
  /// the answer.
  coordination::PushVerdict push(const coordination::PushId& id,
                                 std::span<const checkpoint::NamedTensor> gradients, Time deadline);

  /// As `push`, but keeps the gradients, on the disk, until `apply` decides about `step`. Gradients
  /// of a step that was decided are dropped: kApply as well, since the push is done with.
  coordination::PushVerdict offer(const coordination::PushId& id, std::int64_t step, int index,
                                  std::span<const checkpoint::NamedTensor> gradients,
                                  Time deadline);
  /// Adds the gradients that `decision` names, in its order, updates each variable that has one
  /// once, and drops all other gradients of the step. A decision of an earlier step changes
  /// nothing. Throws kFailedPrecondition for a later one, and if a gradient is missing.
  void apply(const coordination::StepDecision& decision, Time deadline);
  /// The last decision that was applied; unset before the first. A coordinator that is restarted
  /// continues from here.
  std::optional<coordination::StepDecision> last_decision() const;

  /// The step of the job: how many pushes were applied; for synchronous training how many
  /// decisions. `assign` sets it.
  std::int64_t step() const;
  /// The latest incarnation of a worker that was admitted; 0: none.
  std::int64_t incarnation(int worker) const;
  /// Variables with their slots, all from one moment. Throws kNotFound.
  std::vector<NamedState> states(std::span<const std::string> names) const;
  /// The bytes of the log since the last snapshot.
  std::uint64_t log_bytes() const;

  /// Writes a snapshot of everything, all from one moment, and removes the log before it. Changes
  /// go on meanwhile.
  void snapshot();

  /// The names of the variables, sorted by bytes.
  std::vector<std::string> names() const;

 private:
  class Tickets;
  using Parameters = std::map<std::string, std::unique_ptr<Parameter>, std::less<>>;

  void check_usable() const BRIGADE_REQUIRES(order_);
  Parameter& parameter(std::string_view name) const BRIGADE_REQUIRES(order_);
  void check_gradients(std::span<const checkpoint::NamedTensor> gradients) const
      BRIGADE_REQUIRES(order_);
  bool has_same(std::span<const Creation> variables, const optim::UpdateRule& rule) const
      BRIGADE_REQUIRES(order_);
  std::int64_t load_snapshot();
  void replay(std::string_view bytes);
  struct Created;
  void install(Created created) noexcept BRIGADE_REQUIRES(order_);
  optim::Hyperparameters hyperparameters() const BRIGADE_REQUIRES(order_);

  const std::shared_ptr<io::FileSystem> files_;
  const ParameterStoreOptions options_;

  // Held while a change is put into the log and draws its tickets, not while it is applied: so the
  // order of the log is the order of every variable's updates.
  mutable concurrency::Mutex order_;
  Parameters parameters_ BRIGADE_GUARDED_BY(order_);
  optim::UpdateRulePtr rule_ BRIGADE_GUARDED_BY(order_);  // null before `create`
  double learning_rate_ BRIGADE_GUARDED_BY(order_) = 0;
  coordination::PushLedger ledger_ BRIGADE_GUARDED_BY(order_);
  bool has_failed_ BRIGADE_GUARDED_BY(order_) = false;  // values are not what the log says

  concurrency::Mutex snapshots_;  // one snapshot at a time
  std::unique_ptr<checkpoint::Saver> saver_ BRIGADE_GUARDED_BY(snapshots_);
  std::unique_ptr<coordination::UpdateLog> log_;  // last: its replay needs all of the above
};

}  // namespace brigade::ps
