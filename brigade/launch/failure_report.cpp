#include "brigade/launch/failure_report.h"

#include "brigade/base/strings.h"

namespace brigade::launch {

namespace {

constexpr const char* kRunning = " was running";

std::string describe_other(const RankProcess& other, const LineRouter& router) {
  const auto last = router.last_lines(other.rank());
  return base::str_cat(
      "rank ", other.rank(),
      other.is_running() ? kRunning : base::str_cat(" had ended with ", to_string(*other.ended())),
      last.empty() ? "; it had said nothing" : base::str_cat("; it last said: ", last.back()));
}

}  // namespace

Failure describe_failure(const RankProcess& failed, const ExitStatus& status,
                         const std::string& reason, const Generation& generation,
                         const LineRouter& router) {
  Failure failure{.rank = failed.rank(),
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

void add_endings(Failure& failure, const Generation& generation) {
  for (const RankProcess& other : generation.processes()) {
    const std::string beginning = base::str_cat("rank ", other.rank(), kRunning);
    for (std::string& line : failure.others) {
      if (line.compare(0, beginning.size(), beginning) != 0) continue;
      line += base::str_cat("; then it ended with ", to_string(*other.ended()),
                            other.was_killed() ? " when its time was over" : "");
    }
  }
}

}  // namespace brigade::launch
