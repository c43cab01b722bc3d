#include "brigade/launch/restart_policy.h"

#include "brigade/base/log.h"

namespace brigade::launch {

bool RestartPolicy::allows(const ExitStatus& status, const std::function<RankFailure()>& describe) {
  const ExitKind ending = exit_kind_of(status);
  const bool asked = ending == ExitKind::kRestartMe;
  if (!asked) {
    failures_.push_back(describe());
    base::log_error(to_string(failures_.back()));
  }
  int& used = asked ? membership_changes_ : restarts_;
  const int allowed = asked ? options_.max_membership_changes : options_.max_restarts;
  if (ending == ExitKind::kUsage || ending == ExitKind::kInterrupted || used >= allowed) {
    if (code_ == 0) code_ = status.as_code();
    return false;
  }
  ++used;
  return true;
}

}  // namespace brigade::launch
