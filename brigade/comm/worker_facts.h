#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/comm/communicator.h"

namespace brigade::comm {

/// One thing that all workers must have alike, as text: "learning_rate", "0.1".
struct Fact {
  std::string name;
  std::string value;
  friend bool operator==(const Fact&, const Fact&) = default;
};
/// In an order that is the same everywhere. Which facts there are may follow from those before
/// them: where all those of two workers are equal, the next has the same name, or there is none.
using Facts = std::vector<Fact>;

/// The first fact of a worker that is not rank 0's.
struct FactDifference {
  int rank = 0;
  std::string name;
  std::optional<std::string> value;        ///< The worker's; unset if it has no such fact.
  std::optional<std::string> first_value;  ///< Rank 0's.
};

/// Facts as a text that can be sent, and back. Names and values hold no NUL.
std::string to_text(const Facts& facts);
Facts facts_in(const std::string& text);

/// The difference of the lowest rank that has one, by facts in rank order; or nothing.
std::optional<FactDifference> find_difference(std::span<const Facts> by_rank);

/// The same over all ranks, with the same answer in each: the one way in which workers find out, at
/// the start of something that they do together, that they were not told the same. A collective.
std::optional<FactDifference> find_difference(Communicator& workers, const Facts& own);

}  // namespace brigade::comm
