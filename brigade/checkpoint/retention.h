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

/// What retention knows of a checkpoint.
struct Candidate {
  std::int64_t number = 0;
  bool is_kept = false;  ///< By keep_every, for ever.
  std::map<std::string, double> metrics;
};

/// The mark of a checkpoint that is saved now, after one with the mark `before`.
KeptMark next_mark(const KeptMark& before, std::int64_t step, std::chrono::milliseconds now,
                   const KeepEvery& keep_every);

/// The numbers of those of `whole` (oldest first) that no rule keeps, in their order. Never the
/// newest. Thread-safety: a pure function.
std::vector<std::int64_t> to_remove(std::span<const Candidate> whole, const SaverOptions& options);

/// Throws kInvalidArgument, naming the field, for options that can have no meaning.
void validate(const SaverOptions& options);

}  // namespace brigade::checkpoint
