#include "brigade/cluster/membership.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::cluster {

std::string to_string(const Member& member) {
  return base::str_cat(member.task, " (rank ", member.rank, ", pid ", member.pid, " on host ",
                       member.host, ")");
}

std::string to_string(const LostMember& lost) {
  return base::str_cat(lost.member, " was lost: ", lost.reason);
}

Error lost_error(const LostMember& lost, std::string_view what) {
  return Error(ErrorCode::kUnavailable, base::str_cat(lost, "; ", what, " is given up."));
}

void throw_if_lost(const Membership& membership, std::string_view what) {
  if (const auto lost = membership.lost()) throw lost_error(*lost, what);
}

}  // namespace brigade::cluster
