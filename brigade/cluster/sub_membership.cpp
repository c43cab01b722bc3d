#include "brigade/cluster/sub_membership.h"

#include <utility>

#include "brigade/base/strings.h"

namespace brigade::cluster {

SubMembership::SubMembership(std::shared_ptr<Membership> whole, const std::vector<int>& ranks,
                             std::string name)
    : whole_(std::move(whole)), name_(std::move(name)), token_(whole_->lost_token()) {
  bool has_self = false;
  for (const int rank : ranks) {
    const auto index = static_cast<std::size_t>(rank);
    check_argument(rank >= 0 && index < whole_->members().size(),
                   "SubMembership: there is no member of rank ", rank, " among ",
                   whole_->members().size(), ".");
    if (rank == whole_->self().rank) {
      self_ = members_.size();
      has_self = true;
    }
    Member member = whole_->members()[index];
    member.rank = static_cast<int>(members_.size());
    members_.push_back(std::move(member));
  }
  check_argument(has_self, "SubMembership '", name_, "' is made by ", whole_->self(),
                 ", which is not one of its members.");
}

std::string SubMembership::key_of(std::string_view key) const {
  return base::str_cat(name_, "/", key);
}

void SubMembership::set(std::string_view key, std::string_view value) {
  whole_->set(key_of(key), value);
}

std::string SubMembership::get(std::string_view key, std::chrono::milliseconds timeout) {
  return whole_->get(key_of(key), timeout);
}

std::int64_t SubMembership::add(std::string_view key, std::int64_t delta) {
  return whole_->add(key_of(key), delta);
}

std::int64_t SubMembership::append(std::string_view key, std::string_view value) {
  return whole_->append(key_of(key), value);
}

void SubMembership::barrier(std::string_view name, std::chrono::milliseconds timeout) {
  const auto reached = [&](int rank) { return base::str_cat("barrier/", name, "/", rank); };
  set(reached(self().rank), "");
  for (const Member& member : members_) get(reached(member.rank), timeout);
}

std::optional<LostMember> SubMembership::lost() const {
  if (auto lost = whole_->lost()) return lost;
  const concurrency::MutexLock lock(mutex_);
  if (!closed_) return std::nullopt;
  return LostMember{.member = self(), .reason = *closed_, .kind = LossKind::kEnded};
}

void SubMembership::close(const std::string& reason) {
  {
    const concurrency::MutexLock lock(mutex_);
    if (!closed_) closed_ = reason;
  }
  token_.cancel();
}

}  // namespace brigade::cluster
