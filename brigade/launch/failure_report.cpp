#include "brigade/launch/failure_report.h"

#include "brigade/base/strings.h"

namespace brigade::launch {

namespace {

OtherRank describe_other(const RankProcess& other, const LineRouter& router) {
  const auto last = router.last_lines(other.rank());
  const bool is_running = other.is_running();
  return {other.rank(), is_running,
          base::str_cat("rank ", other.rank(),
                        is_running ? " was running"
                                   : base::str_cat(" had ended with ", to_string(*other.ended())),
                        last.empty() ? "; it had said nothing"
                                     : base::str_cat("; it last said: ", last.back()))};
}

}  // namespace

RankFailure describe_failure(const RankProcess& failed, const ExitStatus& status,
                             const std::string& reason, const Generation& generation,
                             const LineRouter& router) {
  RankFailure failure{.rank = failed.rank(),
                      .status = status,
                      .reason = reason,
                      .after = std::chrono::duration_cast<std::chrono::milliseconds>(
                          Generation::Clock::now() - generation.started()),
                      .last_lines = router.last_lines(failed.rank())};
  for (const RankProcess& other : generation.processes()) {
    if (&other != &failed) failure.others.push_back(describe_other(other, router));
  }
  return failure;
}

void add_endings(RankFailure& failure, const Generation& generation) {
  for (OtherRank& other : failure.others) {
    const RankProcess* const process = generation.find(other.rank);
    if (!other.was_running || process == nullptr) continue;
    other.text += base::str_cat("; then it ended with ", to_string(*process->ended()),
                                process->was_killed() ? " after the grace period" : "");
  }
}

}  // namespace brigade::launch
