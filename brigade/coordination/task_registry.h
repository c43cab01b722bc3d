#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/coordination/lease_table.h"

namespace brigade::coordination {

/// Who may call a parameter server: the tasks of a job, their leases, and the tokens that prove who
/// a caller is. Also decides when the job is over.
///
/// Thread-safety: one thread.
class TaskRegistry {
 public:
  using Time = LeaseTable::Time;

  /// `tasks` are the names of the tasks that train, the chief's first. Throws kInvalidArgument if
  /// there are none, for a name that occurs twice, and as LeaseTable.
  TaskRegistry(std::vector<std::string> tasks, std::chrono::milliseconds term);

  /// What a join leads to.
  enum class JoinVerdict {
    kJoined,
    kUnknownTask,  ///< it is none of the job's
    kReplaced      ///< a later incarnation has joined
  };
  struct Joined {
    JoinVerdict verdict = JoinVerdict::kJoined;
    Incarnation holder = {};  ///< kJoined
  };
  /// A task joins: with `incarnation` 0 a new life, which gets the next incarnation; otherwise that
  /// life, here for the first time or again. From now on `token` proves its calls; tokens of its
  /// earlier joins, and of earlier incarnations, are void. A chief that joins again has not
  /// finished. Throws kInvalidArgument for a negative incarnation, and for a token that is empty or
  /// another task's; then nothing changes.
  Joined join(const std::string& task, std::int64_t incarnation, const std::string& token,
              Time now);

  /// Whose token this is, and renews its lease; unset if it is nobody's or the lease has ended.
  std::optional<Incarnation> authenticate(std::string_view token, Time now);
  /// The task has finished; its token is void.
  void leave(std::string_view token, Time now);
  /// The tasks whose leases have ended since the last call, each once. Their tokens are void.
  std::vector<Incarnation> expire(Time now);
  std::optional<Time> next_expiry() const;

  /// The tasks that hold leases.
  std::vector<Incarnation> holders() const { return leases_.holders(); }
  /// The index of a task in `tasks`. Throws kNotFound.
  int rank(std::string_view task) const;
  /// Whether the task has left as finished, and has not joined again.
  bool has_finished(std::string_view task) const;
  /// Whether the job is over: the chief has left as finished, nobody holds a lease, and nobody is
  /// expected. Expected are, for one term after the chief has left, tasks that have not joined
  /// here; a task that was lost, for three terms: it may only have been slow, and joins again;
  /// after `restore_finished`, everybody, for three terms.
  bool is_finished(Time now) const;

  /// As LeaseTable's: the incarnations that were given.
  io::StateTree save() const { return leases_.save(); }
  void restore(const io::StateTree& state) { leases_.restore(state); }
  /// The task had left as finished before this registry was made, at `now`. Throws kNotFound.
  void restore_finished(std::string_view task, Time now);

 private:
  /// What became of a task that has joined here, or left before a restart.
  struct Standing {
    bool has_left = false;
    std::optional<Time> lost = std::nullopt;  // when its lease ended
  };

  bool is_expected(std::string_view task, Time now) const;

  std::vector<std::string> tasks_;
  std::chrono::milliseconds term_;
  LeaseTable leases_;
  std::map<std::string, Incarnation, std::less<>> tokens_;
  std::map<std::string, Standing, std::less<>> standings_;
  std::optional<Time> chief_left_;    // unset unless it has finished
  std::optional<Time> earliest_end_;  // after a restart
};

}  // namespace brigade::coordination
