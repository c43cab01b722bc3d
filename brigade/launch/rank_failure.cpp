#include "brigade/launch/rank_failure.h"

#include "brigade/base/strings.h"

namespace brigade::launch {

std::string to_string(const RankFailure& failure) {
  if (failure.rank < 0) return failure.reason;
  std::string text = base::str_cat("Rank ", failure.rank, failure.elsewhere.empty() ? "" : " on ",
                                   failure.elsewhere, " failed first: ", failure.reason, ", ",
                                   static_cast<double>(failure.after.count()) / 1e3,
                                   " s after the start of generation ", failure.generation, ".");
  if (!failure.elsewhere.empty()) text += " The launcher there says how.";
  if (!failure.last_lines.empty()) {
    text += "\n  its last lines:";
    for (const std::string& line : failure.last_lines) text += base::str_cat("\n    ", line);
  }
  for (const OtherRank& other : failure.others) text += base::str_cat("\n  ", other.text);
  return text;
}

}  // namespace brigade::launch
