#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/cluster/task.h"
#include "brigade/coordination/server_pair.h"
#include "brigade/io/byte_pieces.h"
#include "brigade/io/state_tree.h"
#include "brigade/ps/parameter_service.h"

namespace brigade::ps {

/// What a process of a replicated server says to anybody.
struct RoleReply {
  coordination::PairStatus status;
  std::string follow_token;  ///< for `PairedService::follow`
};

/// A client's vote: the process is to act in `epoch`. It counts if `voter` is the job's witness,
/// the first of the tasks that train and have not finished, and if the process is still the
/// candidate that it was: a vote that arrives late could let it act beside the one that was voted
/// for meanwhile.
struct Vote {
  cluster::Task voter;
  std::int64_t epoch = 0;
  std::string life;            ///< `coordination::PairStatus::life` of the candidate
  std::int64_t candidacy = 0;  ///< its `coordination::PairStatus::candidacy`
};

/// Which state a follower's store is made of: that of one process in one epoch.
struct FollowSource {
  std::string life;
  std::int64_t epoch = 0;
  friend bool operator==(const FollowSource&, const FollowSource&) = default;
};

/// A call of one process of a replicated server to the other one. A process that does not act makes
/// one after another.
struct FollowRequest {
  coordination::PairStatus from;
  std::int64_t number = 0;  ///< of the call, ascending: an earlier one that arrives late is ignored
  FollowSource source;      ///< of `applied`
  /// The records that the follower has on its disk.
  std::int64_t applied = 0;
  /// The part of the other one's state that it asks for, from 0, in place of records.
  std::optional<int> part = std::nullopt;
  /// How long the other one may wait for a record.
  std::chrono::milliseconds wait{0};
  bool knows_end = false;  ///< an answer has said that the job is over
};

/// A part of the state of the one that acts.
struct StatePart {
  std::int64_t covered = 0;  ///< `StoreMoment::covered`
  int parts = 1;
  io::StateTree state;  ///< with part 0
  std::vector<checkpoint::NamedTensor> tensors;
};

struct FollowReply {
  coordination::PairStatus status;
  bool is_finished = false;  ///< the job is over: the follower ends, too, after one more call
  /// Acting: the follower has, with what it says to have applied, everything that was acknowledged.
  bool is_complete = false;
  /// The follower has to ask for the state, from part 0.
  bool must_fill = false;
  std::optional<StatePart> part = std::nullopt;
  std::vector<io::SharedBytes> records = {};  ///< the next ones
};

/// A process of a replicated parameter server, as clients and the other process see it. The
/// functions of ParameterService throw kUnavailable unless it acts.
///
/// Thread-safety: all functions from any thread.
class PairedService : public ParameterService {
 public:
  virtual RoleReply role(Time deadline) = 0;
  /// What it is after the vote; it may begin to act a moment later.
  virtual coordination::PairStatus vote(const Vote& vote, Time deadline) = 0;
  /// Throws kPermissionDenied for another token than `role` has given.
  virtual FollowReply follow(const std::string& token, const FollowRequest& request,
                             Time deadline) = 0;
};

}  // namespace brigade::ps
