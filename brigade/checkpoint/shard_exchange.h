#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/checkpoint/manifest.h"

namespace brigade::checkpoint {

/// Status messages between processes that write a checkpoint together. Each process posts one text,
/// which replaces its previous one and which all can read. Rank 0 is the chief.
/// `train::make_shard_exchange` makes one from a membership.
///
/// Thread-safety: all functions from any thread.
class ShardExchange {
 public:
  using Predicate = std::function<bool(const std::string&)>;

  virtual ~ShardExchange() = default;
  virtual int rank() const = 0;
  virtual int count() const = 0;
  /// The name of a process in messages: "/job:worker/task:1".
  virtual std::string name(int rank) const = 0;

  /// Throws kUnavailable if the text cannot be posted.
  virtual void post(std::string_view text) = 0;
  /// Waits until `is_expected` accepts the text of `rank`, and returns it. Texts posted in between
  /// may be missed. Throws kDeadlineExceeded, naming the process, if it takes too long;
  /// kUnavailable, naming it, if a process is lost while waiting.
  virtual std::string wait_for(int rank, const Predicate& is_expected) = 0;
};

/// The chief's message to the other processes for each save.
struct Announcement {
  std::int64_t save = 0;        ///< Counted by all processes, from 1.
  std::string folder = {};      ///< The folder to write into; empty: the save was abandoned.
  std::string digest = {};      ///< Of the plan.
  std::set<int> left_out = {};  ///< Ranks whose shards the chief writes.
  bool has_ended = false;       ///< There are no further saves.

  std::string text() const;
  /// Throws kDataLoss for an invalid text. "" is an announcement without a save.
  static Announcement parse(std::string_view text);
};

/// A writer's message to the chief when it has finished its part of a save.
struct ShardReport {
  enum class Result {
    kWritten,   ///< Its files are on the disk.
    kDeclined,  ///< It cannot take part: the chief leaves it out from now on.
    kFailed,    ///< The save must fail.
  };
  std::int64_t save = 0;
  Result result = Result::kWritten;
  std::vector<ManifestFile> files = {};   ///< Of kWritten.
  ErrorCode code = ErrorCode::kInternal;  ///< Of kFailed.
  std::string reason = {};                ///< Of kDeclined and kFailed.
  bool has_ended = false;                 ///< There are no further reports.

  std::string text() const;
  static ShardReport parse(std::string_view text);
};

}  // namespace brigade::checkpoint
