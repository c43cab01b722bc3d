#pragma once

#include <cstdint>
#include <functional>
#include <limits>
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
#include "brigade/io/byte_pieces.h"
#include "brigade/io/file_system.h"
#include "brigade/optim/update_rule.h"
#include "brigade/ps/client/model_creation.h"
#include "brigade/ps/store/parameter.h"
#include "brigade/ps/store/parameter_tickets.h"
#include "brigade/ps/store/record_feed.h"
#include "brigade/ps/store/reply_memory.h"
#include "brigade/ps/store/row_gradient.h"
#include "brigade/ps/store/store_install.h"
#include "brigade/ps/store/store_state.h"

namespace brigade::ps {

class LogReplay;

struct ParameterStoreOptions {
  /// The server's folder, created if it is missing. One store at a time may use it: a server holds
  /// an `io::LockFile` in it.
  io::Path folder;
  coordination::UpdateLogOptions log = {};
  /// The most that one `pull` or `states` copies.
  std::uint64_t max_read_bytes = std::numeric_limits<std::uint64_t>::max();
  /// Gets each record; calls return when their records may be acknowledged, too. Null: there is no
  /// replica.
  std::shared_ptr<RecordFeed> feed = nullptr;
};

/// Variables with their slots, and where the job is, all from one moment between two changes.
struct StoredStates {
  std::vector<NamedState> variables;
  std::int64_t step = 0;  ///< `ParameterStore::step`
  /// `ParameterStore::last_decision`, if it is on the disk: another could be made after a crash.
  std::optional<coordination::StepDecision> decision = std::nullopt;
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

  /// Whether the disk has failed, or an update in the middle: the store takes no more changes until
  /// it is opened again.
  bool has_failed() const;

  /// Whether `create` was called: before that there is nothing to pull.
  bool is_created() const;
  /// Creates all variables (there may be none) and the rule that updates them. The same call
  /// again, by a chief that did not get the answer, or that was restarted, changes nothing. A crash
  /// leaves all of it or nothing. `job` (`to_state(JobConfig)`) is kept with them, for `job()`.
  /// Throws kInvalidArgument for two variables of one name, a trainable variable that is not of
  /// floating point, a negative rate, a value that is not dense and on the CPU or that exceeds
  /// `UpdateLogOptions::max_record_bytes`, and a rule that `optim::rule_from_config` cannot make;
  /// kAlreadyExists if the store has other variables (names, shapes, dtypes, separate rates),
  /// another rule or another job. Throws as `push` at `deadline`.
  void create(std::span<const Creation> variables, const optim::UpdateRulePtr& rule,
              const io::StateTree& job, Time deadline);
  /// What `create` was given; null before it.
  io::StateTree job() const;

  /// Sets these variables with their slots (none: the initial ones) and numbers of updates, and the
  /// step: a restore. Throws kNotFound and kInvalidArgument, as `push`, before anything is changed;
  /// kFailedPrecondition after `set_ready`. A crash may leave some of the variables assigned, and
  /// the step as it was: the chief then assigns again.
  void assign(std::span<const NamedState> variables, std::int64_t step, Time deadline);
  /// The variables are initialized or restored: workers may use them. Saved like any change.
  /// Calling it again changes nothing. Throws kFailedPrecondition before `create`.
  void set_ready(Time deadline);
  bool is_ready() const;

  /// The learning rate of the next pushes. Throws kInvalidArgument if it is negative.
  void set_learning_rate(double rate, Time deadline);
  double learning_rate() const;

  /// Fences pushes of the worker's earlier incarnations (see `coordination::PushLedger`).
  void admit(int worker, std::int64_t incarnation, Time deadline);

  /// This incarnation of the worker has finished its training: kept until the worker is admitted
  /// again. One that was replaced changes nothing.
  void finish(int worker, std::int64_t incarnation, Time deadline);
  bool has_finished(int worker) const;

  struct Pulled {
    std::vector<Parameter::Reading> values;
    std::vector<at::Tensor> rows;  ///< [n, ...] for each query
    std::int64_t step = 0;         ///< at the same moment
  };
  /// The values of these variables, in this order, all from one moment between two changes. Throws
  /// kNotFound naming a variable that the store does not have, kInvalidArgument if one occurs
  /// twice, or if all have more than `ParameterStoreOptions::max_read_bytes`.
  Pulled pull(std::span<const std::string> names) const { return pull(names, {}); }
  /// The same, and rows of variables, at the same moment. Throws kInvalidArgument as well for
  /// indices that are not int64 [n] of rows that exist, and for two queries of one variable.
  /// The copies are made in `memory`, if there is any.
  Pulled pull(std::span<const std::string> names, std::span<const RowQuery> rows,
              ReplyMemory* memory = nullptr) const;

  /// Applies a push: one update of each variable that has a gradient here, maybe of none, and one
  /// step of the job. Returns kApply if it was applied, and kDuplicate if it had been; both only
  /// once it is on the disk. kGap and kFenced change nothing. Throws kInvalidArgument, before
  /// anything is changed, for a gradient that is undefined, sparse or not on the CPU, whose shape
  /// differs from its variable's, or dtype (`may_push`: bfloat16 is widened before it is used),
  /// that occurs twice, or whose variable is not trainable; kNotFound for a variable that the store
  /// does not have, kFailedPrecondition before `create`; kDeadlineExceeded if the disk took longer
  /// than `deadline`: then it may have been applied, and pushing it again gives the answer.
  coordination::PushVerdict push(const coordination::PushId& id,
                                 std::span<const checkpoint::NamedTensor> gradients,
                                 Time deadline) {
    return push(id, gradients, {}, deadline);
  }
  /// The same, also with gradients of rows: their variables are updated lazily
  /// (`optim::apply_rows`), and count one update. Throws kInvalidArgument as well unless they fit
  /// their variables (`check_rows`), for a variable that has a dense gradient, too, and for a rule
  /// that needs whole variables.
  coordination::PushVerdict push(const coordination::PushId& id,
                                 std::span<const checkpoint::NamedTensor> gradients,
                                 std::span<const RowGradient> rows, Time deadline);

  struct BegunPush {
    coordination::PushVerdict verdict = coordination::PushVerdict::kApply;
    std::int64_t record = 0;  ///< for `wait_committed`
    /// How many steps of the job came between `read_at` and this push; unset without it, and for
    /// pushes that were not applied by this call.
    std::optional<std::int64_t> staleness = std::nullopt;
  };
  /// As `push`, but the disk may not have it yet when this returns: `wait_committed` waits for it,
  /// and the push must not be acknowledged before. Until then the gradients must not change.
  /// `read_at`: the step of the values that the gradients were computed with. In a job that is
  /// `JobConfig::staleness_aware` the learning rate is divided by the staleness. Also throws
  /// kInvalidArgument if it is negative.
  /// `write_log` is called when the push is in the log and its update remains to be made, so that
  /// the disk works meanwhile: it may ask another thread to write the log. Empty: this call does.
  BegunPush begin_push(const coordination::PushId& id,
                       std::span<const checkpoint::NamedTensor> gradients,
                       std::optional<std::int64_t> read_at = std::nullopt,
                       std::span<const RowGradient> rows = {},
                       const std::function<void()>& write_log = {});
  /// Waits until all changes so far are on the disk; a replica may not have them yet. Throws as
  /// `coordination::UpdateLog::wait_committed`.
  void sync_log(Time deadline) { log_->wait_committed(log_->appended(), deadline); }
  /// Waits until a push is on the disk. Throws as `push`.
  void wait_committed(std::int64_t record, Time deadline);

  /// As `push`, but keeps the gradients, on the disk, until `apply` decides about `step`; it copies
  /// them. Gradients of a step that was decided are dropped: kApply as well, since the push is done
  /// with. The same worker and index again, from a successor of the worker, replaces what it gave.
  /// Kept are the quota (`StepDecider::quota` of the job's `SyncOptions`) of each worker for the
  /// step in progress and for the next: throws kResourceExhausted for more, kFailedPrecondition for
  /// a job that is not kSync.
  coordination::PushVerdict offer(const coordination::PushId& id, std::int64_t step, int index,
                                  std::span<const checkpoint::NamedTensor> gradients,
                                  Time deadline) {
    return offer(id, step, index, gradients, {}, deadline);
  }
  coordination::PushVerdict offer(const coordination::PushId& id, std::int64_t step, int index,
                                  std::span<const checkpoint::NamedTensor> gradients,
                                  std::span<const RowGradient> rows, Time deadline);
  /// Adds the gradients that `decision` names, in its order (float32 for half and bfloat16, rounded
  /// once), updates each variable that has one once, at the decision's learning rate (unset: the
  /// store's), and drops all other gradients of the step. A gradient that a contribution lacks
  /// counts as zero. A decision of an earlier step changes nothing. Throws kFailedPrecondition for
  /// a later one, and if a contribution is missing; kInvalidArgument for contributions that are not
  /// ordered.
  void apply(const coordination::StepDecision& decision, Time deadline);
  /// What became of the gradients of a contribution; kDecided: its step is over.
  enum class OfferState { kMissing, kKept, kDecided };
  OfferState offer_state(std::int64_t step, const coordination::Contribution& from) const;
  /// The last decision that was applied; unset before the first. A coordinator that is restarted
  /// continues from here.
  std::optional<coordination::StepDecision> last_decision() const;

  /// The step of the job: how many pushes were applied; for synchronous training how many
  /// decisions. `assign` sets it.
  std::int64_t step() const;
  /// The latest incarnation of a worker that was admitted; 0: none.
  std::int64_t incarnation(int worker) const;
  /// Variables with their slots, and the step, all from one moment. Throws as `pull`.
  StoredStates states(std::span<const std::string> names) const;
  /// The bytes of the log since the last snapshot that was complete.
  std::uint64_t log_bytes() const;
  /// The records of the log that are not on the disk yet.
  std::int64_t waiting_records() const;

  /// Everything, all from one moment, for a replica. `begin` is called with the number of the last
  /// record that it has, before there is another one.
  StoreMoment moment(const std::function<void(std::int64_t covered)>& begin)
      BRIGADE_EXCLUDES(creations_, order_);
  /// Makes the changes of another store again, which are the records from number `first` on, and
  /// puts them into the log, of which `first` has to be the next: kDataLoss otherwise, and as the
  /// log's replay. `wait_committed` waits until they are on the disk.
  void follow(std::int64_t first, std::span<const io::SharedBytes> records)
      BRIGADE_EXCLUDES(order_);
  /// The number of the last record of the log.
  std::int64_t last_record() const { return log_->appended(); }

  /// Writes a snapshot of everything, all from one moment, and removes the log before it. Changes
  /// continue meanwhile.
  void snapshot();

  /// The names of the variables, sorted by bytes.
  std::vector<std::string> names() const;

 private:
  struct Updates;

  void check_usable() const BRIGADE_REQUIRES(order_);
  void check_still_usable() const BRIGADE_EXCLUDES(order_);
  void check_created() const BRIGADE_REQUIRES(order_);
  Parameter& parameter(std::string_view name) const BRIGADE_REQUIRES(order_);
  void check_gradients(std::span<const checkpoint::NamedTensor> gradients,
                       std::span<const RowGradient> rows) const BRIGADE_REQUIRES(order_);
  void check_fits(std::size_t record_bytes) const;
  void check_assignable(std::span<const NamedState> variables) const BRIGADE_REQUIRES(order_);
  void check_offer(int worker, std::int64_t step, int index) const BRIGADE_REQUIRES(order_);
  std::optional<std::int64_t> staleness_of(std::optional<std::int64_t> read_at) const
      BRIGADE_REQUIRES(order_);
  bool has_same(std::span<const Creation> variables, const optim::UpdateRule& rule,
                const io::StateTree& job) const BRIGADE_REQUIRES(order_);
  StoreMoment collect(const std::function<void(std::int64_t)>& begin) BRIGADE_EXCLUDES(order_);
  std::int64_t log_change(io::BytePieces record) BRIGADE_REQUIRES(order_);
  bool is_durable(std::int64_t record) const;
  std::int64_t commit(StoreState next, io::BytePieces record) BRIGADE_REQUIRES(order_);
  enum class Reads { kValues, kStates };
  /// Returns what is read.
  ReplyExtent draw_tickets(std::span<const std::string> names, Reads what,
                           ParameterTickets& tickets, std::span<const RowQuery> rows = {}) const
      BRIGADE_REQUIRES(order_);
  Parameter& parameter_of(const RowQuery& query) const BRIGADE_REQUIRES(order_);
  void add_update(std::string_view name, std::vector<VariableGradient> gradients,
                  double learning_rate, Updates& updates) const BRIGADE_REQUIRES(order_);
  void draw_tickets(Updates& updates) const BRIGADE_REQUIRES(order_);
  static void divide_rates(std::int64_t divisor, const at::Tensor& recorded, Updates& updates);
  template <class Function>
  void change_values(const Function& change) BRIGADE_EXCLUDES(order_);
  void run(Updates& updates) BRIGADE_EXCLUDES(order_);
  void assign_part(std::span<const NamedState> variables, std::optional<std::int64_t> step,
                   Time deadline);
  void write_snapshot(std::int64_t covered, const checkpoint::Contents& contents)
      BRIGADE_REQUIRES(snapshots_);

  const std::shared_ptr<io::FileSystem> files_;
  const ParameterStoreOptions options_;

  concurrency::Mutex creations_;  // one creation at a time; taken before order_

  // Held while a change is put into the log and draws its tickets, not while it is applied: so the
  // order of the log is the order of every variable's updates.
  mutable concurrency::Mutex order_;
  Parameters parameters_ BRIGADE_GUARDED_BY(order_);  // none is removed or replaced
  StoreState state_ BRIGADE_GUARDED_BY(order_);
  std::int64_t decision_record_ BRIGADE_GUARDED_BY(order_) = 0;  // the last decision's in the log
  std::uint64_t log_bytes_ BRIGADE_GUARDED_BY(order_) = 0;
  bool has_failed_ BRIGADE_GUARDED_BY(order_) = false;  // values are not what the log says

  std::unique_ptr<LogReplay> following_ BRIGADE_GUARDED_BY(order_);  // null: it has not followed

  concurrency::Mutex snapshots_;  // one snapshot at a time; taken before order_
  std::unique_ptr<checkpoint::Saver> saver_ BRIGADE_GUARDED_BY(snapshots_);
  std::unique_ptr<coordination::UpdateLog> log_;  // thread-safe
};

}  // namespace brigade::ps
