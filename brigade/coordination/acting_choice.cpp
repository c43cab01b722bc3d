#include "brigade/coordination/acting_choice.h"

#include <algorithm>

namespace brigade::coordination {

ActingChoice::Choice ActingChoice::vote_for(std::size_t server, std::int64_t epoch) {
  epoch_ = epoch;
  promised_ = server;
  return {.kind = Kind::kVote, .server = server, .epoch = epoch};
}

ActingChoice::Choice ActingChoice::choose(std::span<const std::optional<PairStatus>> answers) {
  Choice used;
  for (std::size_t server = 0; server < answers.size(); ++server) {
    const auto& answer = answers[server];
    if (!answer || answer->role != PairRole::kActing) continue;
    if (answer->epoch >= std::max(epoch_, used.epoch))
      used = {.kind = Kind::kUse, .server = server, .epoch = answer->epoch};
  }
  if (used.kind == Kind::kUse) {
    epoch_ = used.epoch;
    return used;
  }
  const auto is_candidate = [&](std::size_t server) {
    return answers[server] && answers[server]->role == PairRole::kCandidate;
  };
  if (promised_ && is_candidate(*promised_) && answers[*promised_]->epoch < epoch_)
    return vote_for(*promised_, epoch_);
  for (std::size_t server = 0; server < answers.size(); ++server)
    if (is_candidate(server) && answers[server]->epoch >= epoch_)
      return vote_for(server, answers[server]->epoch + 1);
  // Nobody has acted in the last epoch that was promised: all say that they have not.
  std::int64_t latest = 0;
  for (const auto& answer : answers) {
    if (!answer) return {};
    latest = std::max(latest, answer->epoch);
  }
  for (std::size_t server = 0; server < answers.size(); ++server)
    if (is_candidate(server) && answers[server]->epoch == latest)
      return vote_for(server, epoch_ + 1);
  return {};
}

}  // namespace brigade::coordination
