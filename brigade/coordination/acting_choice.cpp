#include "brigade/coordination/acting_choice.h"

#include <algorithm>

namespace brigade::coordination {

ActingChoice::Choice ActingChoice::vote_for(std::size_t server, std::int64_t epoch) {
  before_ = promise_;
  promise_ = {.epoch = epoch, .server = server};
  return {.kind = Kind::kVote, .server = server, .epoch = epoch};
}

ActingChoice::Choice ActingChoice::choose(std::span<const std::optional<PairStatus>> answers) {
  Choice used;
  for (std::size_t server = 0; server < answers.size(); ++server) {
    const auto& answer = answers[server];
    if (!answer || answer->role != PairRole::kActing) continue;
    if (answer->epoch >= std::max(known_, used.epoch))
      used = {.kind = Kind::kUse, .server = server, .epoch = answer->epoch};
  }
  if (used.kind == Kind::kUse) {
    known_ = used.epoch;
    if (known_ >= promise_.epoch) promise_ = {.epoch = known_};
    return used;
  }
  std::int64_t latest = known_;  // a candidate that lacks something of it is not voted for
  bool have_all_answered = true;
  for (const auto& answer : answers) {
    if (answer)
      latest = std::max(latest, answer->epoch);
    else
      have_all_answered = false;
  }
  const auto is_candidate = [&](std::size_t server) {
    const auto& answer = answers[server];
    return answer && answer->role == PairRole::kCandidate &&
           (known_ > 0 || have_all_answered || !answer->is_restored);
  };
  const auto promised = promise_.server;
  if (promised && is_candidate(*promised) && answers[*promised]->epoch < promise_.epoch)
    return vote_for(*promised, promise_.epoch);
  for (std::size_t server = 0; server < answers.size(); ++server)
    if (is_candidate(server) && answers[server]->epoch >= std::max(latest, promise_.epoch))
      return vote_for(server, answers[server]->epoch + 1);
  // Nobody has acted in the epoch that was promised: all say that they have not.
  if (!have_all_answered) return {};
  for (std::size_t server = 0; server < answers.size(); ++server)
    if (is_candidate(server) && answers[server]->epoch == latest)
      return vote_for(server, promise_.epoch + 1);
  return {};
}

}  // namespace brigade::coordination
