#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "brigade/checkpoint/manifest.h"
#include "brigade/checkpoint/saver_options.h"

namespace brigade::checkpoint {

/// A checkpoint as the retention rules see it.
struct Candidate {
  std::int64_t number = 0;
  bool is_kept = false;  ///< Kept forever by keep_every.
  std::map<std::string, double> metrics;
};

/// The mark of a checkpoint saved now, after a checkpoint with the mark `before`.
KeptMark next_mark(const KeptMark& before, std::int64_t step, std::chrono::milliseconds now,
                   const KeepEvery& keep_every);

/// The numbers of the checkpoints in `whole` (oldest first) that no rule keeps, in the same order.
/// Never includes the newest. Thread-safety: a pure function.
std::vector<std::int64_t> to_remove(std::span<const Candidate> whole, const SaverOptions& options);

/// Throws kInvalidArgument, naming the field, for invalid options.
void validate(const SaverOptions& options);

}  // namespace brigade::checkpoint
