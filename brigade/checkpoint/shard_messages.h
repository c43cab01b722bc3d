#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/checkpoint/manifest.h"

namespace brigade::checkpoint {

/// What the chief posts for the others in each save.
struct Announcement {
  std::int64_t save = 0;        ///< Counted by all, from 1.
  std::string folder = {};      ///< Into which to write; empty: the save was given up.
  std::string digest = {};      ///< Of the plan.
  std::set<int> left_out = {};  ///< Ranks whose share the chief writes.
  bool has_ended = false;       ///< No further save comes.

  std::string text() const;
  /// Throws kDataLoss for what is no announcement. "" is one of no save.
  static Announcement parse(std::string_view text);
};

/// What another writer posts when it is through with a save.
struct ShardReport {
  enum class Result {
    kWritten,   ///< Its files are on the disk.
    kDeclined,  ///< It cannot take part: the chief has to do without it from now on.
    kFailed,    ///< The save must fail.
  };
  std::int64_t save = 0;
  Result result = Result::kWritten;
  std::vector<ManifestFile> files = {};   ///< Of kWritten.
  ErrorCode code = ErrorCode::kInternal;  ///< Of kFailed.
  std::string reason = {};                ///< Of kDeclined and kFailed.
  bool has_ended = false;                 ///< No further report comes.

  std::string text() const;
  static ShardReport parse(std::string_view text);
};

}  // namespace brigade::checkpoint
