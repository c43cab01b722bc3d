#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::comm {

/// What an exchange between processes is for.
///
/// Thread-safety: a value.
struct CallPurpose {
  enum class Use : std::int32_t {
    kOther,      ///< a call of the program: a reduction, a barrier, a variable that is read
    kGradients,  ///< of the optimizer `optimizer`
    kInput,      ///< who still has data
  };
  static constexpr std::int32_t kNone = -1;

  Use use = Use::kOther;
  std::int32_t optimizer = kNone;  ///< in the order in which the strategy made them
  std::int32_t bucket = kNone;     ///< which part of its gradients

  bool operator==(const CallPurpose&) const = default;
};

/// Where a process stands among the steps that all make together, and what it exchanges there. Each
/// exchange between processes brings everybody's; they must be alike.
///
/// Thread-safety: a value.
struct CallStamp {
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  /// Steps that were made or failed before this one. Unlike `step` it never goes back.
  std::uint64_t run = 0;
  std::uint64_t step = 0;     ///< its number in the training
  std::uint64_t updates = 0;  ///< made by all optimizers
  /// The first run that failed here and of which the others do not know.
  std::uint64_t failed_run = kNone;
  std::int32_t micro_batches = 0;  ///< gathered, and not applied yet
  std::int32_t is_inside = 0;      ///< 1: within the step; 0: before it begins
  CallPurpose purpose;

  /// Whether the exchanges belong together; what failed before them has no say.
  bool matches(const CallStamp& other) const;
};

/// "in step 5 (5 updates made), for the gradients of optimizer 0, bucket 1", for messages.
std::string describe(const CallStamp& stamp);

/// All processes give up a step in which some of them failed, and none has made its update. They
/// stay together: the next step may follow.
class StepAbandoned : public Error {
 public:
  StepAbandoned(std::uint64_t step, std::vector<int> failed_ranks, const std::string& message);
  std::uint64_t step() const noexcept { return step_; }
  /// Who failed in it.
  const std::vector<int>& failed_ranks() const noexcept { return failed_ranks_; }

 private:
  std::uint64_t step_;
  std::vector<int> failed_ranks_;
};

/// Processes met in different steps, or in exchanges for different things. Their states have
/// parted: the job goes on from a checkpoint. kFailedPrecondition.
class StepMismatch : public Error {
 public:
  /// One process in the exchange.
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

/// What the stamps of one exchange, by rank, ask of everybody. All see the same stamps, so all come
/// to the same.
struct StepComparison {
  enum class Verdict {
    kTogether,  ///< all are in one run
    kRepeat,    ///< some report failures that are past: once these are forgotten, all ask anew
    kAbandon,   ///< those in the lowest run give it up; the others failed in it, and ask anew
    kDiverged,     ///< no exchange is possible any more
  };
  Verdict verdict = Verdict::kTogether;
  std::uint64_t lowest = 0;  ///< the first run that somebody is in
};
StepComparison compare_steps(const std::vector<CallStamp>& stamps);

/// Counts a process's steps and updates, and remembers which steps failed here until all others
/// know. A strategy tells it; the communicator between the processes stamps its exchanges with it.
///
/// A process that fails in a step does not wait for the others: its next exchange, whichever it is,
/// says so, and ends the step for those that are still in it.
///
/// Thread-safety: one thread at a time.
class StepProgress {
 public:
  std::uint64_t step() const { return stamp_.step; }
  /// For resuming: the next step has this number.
  void move_to(std::uint64_t step) { stamp_.step = step; }

  void begin_step() { stamp_.is_inside = 1; }
  /// The step that was begun has failed here, for `reason`.
  void fail_step(std::string reason);
  /// Done or failed, it counts.
  void end_step();
  /// A step that could not begin: counts as one that failed.
  void skip_step(std::string reason);

  void count_update() { ++stamp_.updates; }
  /// So many micro-batches more, or less, wait for their update.
  void add_micro_batches(int micro_batches) { stamp_.micro_batches += micro_batches; }

  const CallPurpose& purpose() const { return stamp_.purpose; }
  void set_purpose(const CallPurpose& purpose) { stamp_.purpose = purpose; }

  // For the communicator between the processes:
  CallStamp stamp() const;
  /// Why the step failed that the stamp names; empty: none did.
  std::string reason() const;
  /// All others know of failures before this run, or have passed them.
  void forget_failures_before(std::uint64_t run);
  /// The step is given up: until it ends, exchanges throw this.
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
  std::deque<Failure> failures_;  // in their order, none before the others' last exchange
  std::optional<StepAbandoned> abandoned_;
};

/// While it lives, exchanges are for `purpose`. Null: does nothing.
///
/// Thread-safety: the thread that makes the exchanges.
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
