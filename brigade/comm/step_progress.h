#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::comm {

/// What a collective between processes is for.
///
/// Thread-safety: a value.
struct CallPurpose {
  enum class Use : std::int32_t {
    kOther,      ///< a call of the program: a reduction, a barrier, reading a variable
    kGradients,  ///< the gradients of optimizer `optimizer`
    kInput,      ///< which processes still have data
    kStop,       ///< whether the training stops
  };
  static constexpr std::int32_t kNone = -1;

  Use use = Use::kOther;
  std::int32_t optimizer = kNone;  ///< its number, in the order in which the strategy made them
  std::int32_t bucket = kNone;     ///< the bucket of its gradients

  bool operator==(const CallPurpose&) const = default;
};

/// A process's progress: its step, and the purpose of its current collective. Each collective
/// between processes exchanges the stamps of all ranks, which must match.
///
/// Thread-safety: a value.
struct CallStamp {
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  /// The number of steps that were made or failed before this one. Unlike `step` it never
  /// decreases.
  std::uint64_t run = 0;
  std::uint64_t step = 0;     ///< the step's number in the training
  std::uint64_t updates = 0;  ///< updates made by all optimizers
  /// The first run that failed here and that the others do not know of yet.
  std::uint64_t failed_run = kNone;
  std::int32_t micro_batches = 0;  ///< accumulated, and not applied yet
  std::int32_t is_inside = 0;      ///< 1: within the step; 0: before it begins
  CallPurpose purpose;

  /// Whether both belong to the same collective. Earlier failures are not compared.
  bool matches(const CallStamp& other) const;
};

/// "in step 5 (5 updates made), for the gradients of optimizer 0, bucket 1", for messages.
std::string describe(const CallStamp& stamp);

/// All processes abandon a step in which some of them failed; none has made its update. They stay
/// in the same state and can make the next step.
class StepAbandoned : public Error {
 public:
  StepAbandoned(std::uint64_t step, std::vector<int> failed_ranks, const std::string& message);
  std::uint64_t step() const noexcept { return step_; }
  /// The ranks that failed in it.
  const std::vector<int>& failed_ranks() const noexcept { return failed_ranks_; }

 private:
  std::uint64_t step_;
  std::vector<int> failed_ranks_;
};

/// Processes made a collective in different steps, or for different purposes. Their states have
/// diverged: resume the job from a checkpoint. kFailedPrecondition.
class StepMismatch : public Error {
 public:
  /// One process in the collective.
  struct Party {
    int rank = 0;
    CallStamp stamp;
  };
  StepMismatch(Party own, Party other, const std::string& message);
  const Party& own() const noexcept { return own_; }
  const Party& other() const noexcept { return other_; }

 private:
  Party own_;
  Party other_;
};

/// What the stamps of one collective, by rank, require of all ranks. All ranks see the same stamps,
/// so all get the same result.
struct StepComparison {
  enum class Verdict {
    kTogether,  ///< all are in one run
    kRepeat,    ///< some report failures of past runs: all forget these and exchange again
    kAbandon,   ///< ranks in the lowest run abandon it; the others failed in it, and exchange again
    kDiverged,  ///< no exchange is possible any more
  };
  Verdict verdict = Verdict::kTogether;
  std::uint64_t lowest = 0;  ///< the lowest run of any rank
};
StepComparison compare_steps(const std::vector<CallStamp>& stamps);

/// Counts a process's steps and updates, and remembers which steps failed here until all other
/// processes know. A strategy updates it; the communicator between the processes stamps its
/// collectives with it.
///
/// A process that fails in a step does not wait for the others: its next collective, whichever it
/// is, reports the failure and ends the step for processes that are still in it.
///
/// A process with several communicators, each with other processes, has a progress for each: one of
/// them leads the others (`lead`). Each remembers the failures separately, since each has other
/// processes to report them to.
///
/// Thread-safety: one thread at a time.
class StepProgress {
 public:
  std::uint64_t step() const { return stamp_.step; }
  /// From now on `other` counts the same steps and updates, and has the same purpose.
  void lead(std::shared_ptr<StepProgress> other) { others_.push_back(std::move(other)); }
  /// Sets the number of the next step, when a training resumes.
  void move_to(std::uint64_t step);

  void begin_step();
  /// Records that the current step failed here, for `reason`.
  void fail_step(std::string reason);
  /// Ends the current step and counts it, whether it succeeded or failed.
  void end_step();
  /// Counts a step that could not begin as one that failed.
  void skip_step(std::string reason);

  void count_update();
  /// Adds to the number of micro-batches that are accumulated and not applied; may be negative.
  void add_micro_batches(int micro_batches);

  const CallPurpose& purpose() const { return stamp_.purpose; }
  void set_purpose(const CallPurpose& purpose);

  // For the communicator between the processes:
  CallStamp stamp() const;
  /// Why the stamp's `failed_run` failed; empty: none did.
  std::string reason() const;
  /// Forgets failures before this run: all other processes know of them, or have passed them.
  void forget_failures_before(std::uint64_t run);
  /// Abandons the current step: until it ends, collectives throw this error.
  void abandon(const StepAbandoned& error) { abandoned_ = error; }
  void throw_if_abandoned() const {
    if (abandoned_) throw *abandoned_;
  }

 private:
  struct Failure {
    std::uint64_t run = 0;
    std::string reason;
  };

  CallStamp stamp_;
  std::deque<Failure> failures_;  // in order; those that the others know of are removed
  std::optional<StepAbandoned> abandoned_;
  std::vector<std::shared_ptr<StepProgress>> others_;  // that this one leads
};

/// Sets the purpose of collectives within a scope. With a null `progress` it does nothing.
///
/// Thread-safety: the thread that makes the collectives.
class PurposeScope {
 public:
  PurposeScope(StepProgress* progress, const CallPurpose& purpose) : progress_(progress) {
    if (progress_ == nullptr) return;
    before_ = progress_->purpose();
    progress_->set_purpose(purpose);
  }
  ~PurposeScope() {
    if (progress_ != nullptr) progress_->set_purpose(before_);
  }
  PurposeScope(const PurposeScope&) = delete;
  PurposeScope& operator=(const PurposeScope&) = delete;

 private:
  StepProgress* const progress_;
  CallPurpose before_;
};

}  // namespace brigade::comm
