#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/comm/communicator.h"

namespace brigade::comm {

/// Collectives of numbers, flags and texts: counts, names, positions. They are sent as CPU tensors,
/// and throw what the calls of `Communicator` throw.

/// Returns the numbers of all ranks, combined by `op`.
std::int64_t all_reduce_number(Communicator& communicator, std::int64_t mine, ReduceOp op);

/// Returns which flags are set on at least one rank: [flag]. All ranks have equally many.
std::vector<bool> all_reduce_flags(Communicator& communicator, const std::vector<bool>& mine);

/// Returns the texts of all ranks, by rank. Texts may differ in length.
std::vector<std::string> all_gather_texts(Communicator& communicator, const std::string& mine);

/// A setting that must be equal on all workers, as text: "learning_rate", "0.1".
struct Fact {
  std::string name;
  std::string value;
  friend bool operator==(const Fact&, const Fact&) = default;
};
/// In an order that is the same on all workers. Which facts follow may depend on earlier ones: if
/// the first n facts of two workers are equal, the next has the same name on both, or both end.
using Facts = std::vector<Fact>;

/// The first fact in which a worker differs from rank 0.
struct FactDifference {
  int rank = 0;
  std::string name;
  std::optional<std::string> value;        ///< The worker's; unset if it has no such fact.
  std::optional<std::string> first_value;  ///< Rank 0's.
};

/// Facts as one text that can be sent, and back. Names and values contain no NUL.
std::string to_text(const Facts& facts);
Facts facts_in(const std::string& text);

/// The difference of the lowest rank that has one; `by_rank` are the facts in rank order.
std::optional<FactDifference> find_difference(std::span<const Facts> by_rank);

/// The same over all ranks, with the same result on each. Workers call it before they start
/// something together, to find settings that differ. A collective.
std::optional<FactDifference> find_difference(Communicator& workers, const Facts& own);

}  // namespace brigade::comm
