#include "brigade/cluster/membership.h"

#include <algorithm>
#include <cctype>

#include "brigade/base/strings.h"

namespace brigade::cluster {

namespace {

using SameNamespace = bool (*)(const HostIdentity&, const HostIdentity&);

const Member* first_apart(const Membership& membership, const Member& from, SameNamespace is_same) {
  const auto& members = membership.members();
  const auto found = std::ranges::find_if(
      members, [&](const Member& member) { return !is_same(member.identity, from.identity); });
  return found == members.end() ? nullptr : &*found;
}

}  // namespace

const Member* first_without_shared_memory(const Membership& membership) {
  return first_apart(membership, membership.members().front(), same_process_namespace);
}

const Member* first_on_another_network(const Membership& membership) {
  return first_apart(membership, membership.self(), same_network_namespace);
}

std::string to_string(const Member& member) {
  if (member.rank < 0) {  // not a member, but the process that serves the rendezvous
    return base::str_cat("the ", member.task.job, " (pid ", member.pid, " on host ", member.host,
                         ")");
  }
  return base::str_cat(member.task, " (rank ", member.rank, ", pid ", member.pid, " on host ",
                       member.host, ")");
}

std::string to_string(const LostMember& lost) {
  std::string text = base::str_cat(lost.member, " was lost: ", lost.reason);
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

Error lost_error(const LostMember& lost, std::string_view what) {
  return Error(ErrorCode::kUnavailable, lost, "; ", what, " is given up.");
}

void throw_if_lost(const Membership& membership, std::string_view what) {
  if (const auto lost = membership.lost()) throw lost_error(*lost, what);
}

}  // namespace brigade::cluster
