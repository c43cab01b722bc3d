#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/checkpoint/manifest.h"

namespace brigade::checkpoint {

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
