#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace brigade::coordination {

/// What one of the two processes of a replicated parameter server does.
enum class PairRole {
  kLooking,    ///< it was started, or has lost its role, and does not know what the other one does
  kFollowing,  ///< it receives the updates of the other one, which acts
  kCandidate,  ///< it could act, and waits for the vote that lets it
  kActing      ///< it serves clients
};

/// What a process of a pair says about itself.
struct PairStatus {
  std::string life;  ///< of the process: another one after each start
  PairRole role = PairRole::kLooking;
  /// The last period of acting, its own or the other's, of which it has every update that was
  /// acknowledged. 0: it has nothing.
  std::int64_t epoch = 0;
  /// What it has is from its folder: since its start it has neither acted nor been a complete
  /// follower. The other one may have continued without it before.
  bool is_restored = false;
  /// How often it has become a candidate in this life. A vote is for one candidacy: one that
  /// arrives late does not count.
  std::int64_t candidacy = 0;
  friend bool operator==(const PairStatus&, const PairStatus&) = default;
};

/// Decides which of the two processes of a replicated parameter server acts. Both run one of these,
/// report to it what they receive from each other, and do what `status().role` says.
///
/// Time alone decides nothing: a process that gets no message from the other one cannot know
/// whether that is dead or still runs. So it becomes a candidate, and acts with the vote of a third
/// party, the job's witness, which gives each epoch to one process (`ActingChoice`). While there is
/// a complete follower, the acting process acknowledges nothing without it: so a process that was
/// replaced cannot have acknowledged what its successor lacks.
///
/// Thread-safety: one thread.
class ServerPair {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Options {
    std::string life;
    /// The one of the two that begins a job, if neither has anything.
    bool is_first = true;
    /// A complete follower becomes a candidate if it gets no message from the acting process for
    /// this long. The acting process waits twice as long for its follower.
    std::chrono::milliseconds term{4000};
  };
  /// `epoch`: what is in its folder (`PairStatus::epoch`); unset for an empty folder, 0 for one
  /// that was being filled. Throws kInvalidArgument unless the term is positive.
  ServerPair(Options options, std::optional<std::int64_t> epoch, Time now);

  PairStatus status() const {
    return {.life = options_.life,
            .role = role_,
            .epoch = epoch_,
            .is_restored = is_restored_,
            .candidacy = candidacy_};
  }
  PairRole role() const { return role_; }

  /// The other process has sent its status, in a call or an answer.
  void receive(const PairStatus& other, Time now);
  /// Becomes a candidate if it has waited long enough.
  void tick(Time now);
  /// When `tick` may change something; unset for never.
  std::optional<Time> next_tick() const;

  /// The witness lets this process act in `epoch`. False, and nothing changes, unless it is a
  /// candidate and `epoch` follows its own.
  bool vote(std::int64_t epoch);

  /// Following: what it has is dropped, to be filled again by the one that acts.
  void begin_to_fill();
  /// Following: it has everything that the one that acts has acknowledged, and that one waits for
  /// it from now on.
  void complete(std::int64_t epoch);

  /// Acting: whether it has a complete follower, for which acknowledgments wait.
  void set_paired(bool is_paired, Time now);
  bool is_paired() const { return is_paired_; }
  /// Acting: its complete follower has been silent for so long that it is to be asked what it does.
  /// It may have replaced this process, which was stopped and has woken up.
  bool doubts_follower(Time now) const;
  /// Acting: the follower has called.
  void record_follower_call(Time now) { last_contact_ = now; }

 private:
  void look(Time now);
  void become_candidate();
  /// Not without what was acknowledged in an epoch of which it has heard.
  bool may_act() const { return epoch_ >= latest_ && (epoch_ > 0 || may_begin_); }
  bool has_priority_over(const PairStatus& other) const;

  Options options_;
  PairRole role_ = PairRole::kLooking;
  std::int64_t epoch_ = 0;
  std::int64_t latest_ = 0;     // the last epoch in which the other one acted, as far as is known
  std::int64_t candidacy_ = 0;  // PairStatus::candidacy
  bool is_restored_ = false;    // PairStatus::is_restored
  bool may_begin_ = false;      // with nothing: a new job
  bool is_paired_ = false;
  std::string followed_;  // the life of the one that it follows
  // Looking: since when. Following: with the acting process. Acting: with its follower.
  Time last_contact_;
};

}  // namespace brigade::coordination
