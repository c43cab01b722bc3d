#include "brigade/cluster/testing/in_memory_membership.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::cluster::testing {
namespace {

using Deadline = std::chrono::steady_clock::time_point;

// Longer ones would overflow the clock.
Deadline deadline_after(std::chrono::milliseconds timeout) {
  return std::chrono::steady_clock::now() +
         std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24));
}

// The state shared by the ranks of a group.
struct Group {
  explicit Group(std::vector<Member> all) : members(std::move(all)) {}

  const std::vector<Member> members;
  const concurrency::CancelToken lost_token;
  concurrency::Mutex mutex;
  concurrency::Condition changed;
  std::map<std::string, std::string> values BRIGADE_GUARDED_BY(mutex);
  std::map<std::string, std::int64_t> lengths BRIGADE_GUARDED_BY(mutex);  // of lists
  std::map<std::string, std::set<int>> barriers BRIGADE_GUARDED_BY(mutex);
  std::optional<LostMember> lost BRIGADE_GUARDED_BY(mutex);
  std::set<int> left BRIGADE_GUARDED_BY(mutex);
};

class InMemoryMembership final : public Membership {
 public:
  InMemoryMembership(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)), rank_(rank) {}
  ~InMemoryMembership() override { leave(); }

  const Member& self() const override { return members()[static_cast<std::size_t>(rank_)]; }
  const std::vector<Member>& members() const override { return group_->members; }
  int generation() const override { return 0; }

  void set(std::string_view key, std::string_view value) override {
    const concurrency::MutexLock lock(group_->mutex);
    group_->values.insert_or_assign(std::string(key), std::string(value));
    group_->changed.notify_all();
  }

  std::string get(std::string_view key, std::chrono::milliseconds timeout) override {
    const std::string name(key);
    const Deadline deadline = deadline_after(timeout);
    const concurrency::MutexLock lock(group_->mutex);
    while (true) {
      const auto found = group_->values.find(name);
      if (found != group_->values.end()) return found->second;
      check_not_lost(base::str_cat("the wait for the key '", key, "'"));
      if (group_->changed.wait_until(group_->mutex, deadline)) continue;
      if (group_->values.contains(name)) continue;
      throw Error(ErrorCode::kDeadlineExceeded, "No member has set the key '", key, "' within ",
                  timeout.count(), " ms.");
    }
  }

  std::int64_t add(std::string_view key, std::int64_t delta) override {
    const concurrency::MutexLock lock(group_->mutex);
    std::string& text = group_->values.try_emplace(std::string(key), "0").first->second;
    const auto before = base::parse_int(text);
    check_argument(before.has_value(), "The value under the key '", key, "' is not a number.");
    text = std::to_string(*before + delta);
    group_->changed.notify_all();
    return *before + delta;
  }

  std::int64_t append(std::string_view key, std::string_view value) override {
    const concurrency::MutexLock lock(group_->mutex);
    const std::int64_t number = ++group_->lengths[std::string(key)];
    group_->values.insert_or_assign(base::str_cat(key, "/", number), std::string(value));
    group_->changed.notify_all();
    return number;
  }

  void barrier(std::string_view name, std::chrono::milliseconds timeout) override {
    const Deadline deadline = deadline_after(timeout);
    const concurrency::MutexLock lock(group_->mutex);
    std::set<int>& arrived = group_->barriers[std::string(name)];
    check_state(arrived.insert(rank_).second, "Rank ", rank_, " reached the barrier '", name,
                "' a second time; each name can be used once.");
    group_->changed.notify_all();
    while (arrived.size() < group_->members.size()) {
      check_not_lost(base::str_cat("the barrier '", name, "'"));
      check_not_left(arrived, name);
      if (group_->changed.wait_until(group_->mutex, deadline) ||
          arrived.size() == group_->members.size())
        continue;
      throw Error(ErrorCode::kDeadlineExceeded, "Not all members reached the barrier '", name,
                  "' within ", timeout.count(), " ms; missing: ", missing(arrived), ".");
    }
  }

  std::optional<LostMember> lost() const override {
    const concurrency::MutexLock lock(group_->mutex);
    return group_->lost;
  }

  concurrency::CancelToken lost_token() const override { return group_->lost_token; }

  void lose(int rank, const std::string& reason) {
    {
      const concurrency::MutexLock lock(group_->mutex);
      if (group_->left.contains(rank) || group_->lost) return;  // only the first loss counts
      group_->lost = LostMember{group_->members.at(static_cast<std::size_t>(rank)), reason};
      group_->changed.notify_all();
    }
    group_->lost_token.cancel();  // runs callbacks, which may call this group
  }

  void leave() noexcept override {
    const concurrency::MutexLock lock(group_->mutex);
    group_->left.insert(rank_);
    group_->changed.notify_all();
  }

 private:
  void check_not_lost(const std::string& what) const BRIGADE_REQUIRES(group_->mutex) {
    if (!group_->lost) return;
    throw lost_error(*group_->lost, what);
  }

  // Fails before the deadline if a rank has left and so cannot arrive.
  void check_not_left(const std::set<int>& arrived, std::string_view name) const
      BRIGADE_REQUIRES(group_->mutex) {
    for (const int rank : group_->left) {
      if (arrived.contains(rank)) continue;
      throw Error(ErrorCode::kUnavailable, group_->members[static_cast<std::size_t>(rank)],
                  " has left before the barrier '", name, "'.");
    }
  }

  std::string missing(const std::set<int>& arrived) const {
    std::vector<std::string> names;
    for (const Member& member : group_->members) {
      if (!arrived.contains(member.rank)) names.push_back(to_string(member));
    }
    return base::join(names, ", ");
  }

  const std::shared_ptr<Group> group_;
  const int rank_;
};

}  // namespace

std::vector<std::shared_ptr<Membership>> make_in_memory_memberships(
    int size, const std::vector<std::string>& hosts) {
  check_argument(size > 0, "A group needs at least one member, not ", size, ".");
  check_argument(hosts.empty() || hosts.size() == static_cast<std::size_t>(size), "There are ",
                 size, " members, but ", hosts.size(), " hosts.");
  std::vector<Member> members;
  for (int rank = 0; rank < size; ++rank) {
    members.push_back(
        {.rank = rank,
         .task = {"worker", rank},
         .host = hosts.empty() ? "localhost" : hosts[static_cast<std::size_t>(rank)],
         .pid = getpid(),
         .identity = {.kernel =
                          hosts.empty() ? "localhost" : hosts[static_cast<std::size_t>(rank)]}});
  }
  const auto group = std::make_shared<Group>(std::move(members));
  std::vector<std::shared_ptr<Membership>> memberships;
  for (int rank = 0; rank < size; ++rank) {
    memberships.push_back(std::make_shared<InMemoryMembership>(group, rank));
  }
  return memberships;
}

void lose(Membership& any_of_the_group, int rank, const std::string& reason) {
  auto* const member = dynamic_cast<InMemoryMembership*>(&any_of_the_group);
  check_argument(member != nullptr, "Only an in-memory membership can lose a member on request.");
  const auto size = static_cast<int>(member->members().size());
  check_argument(rank >= 0 && rank < size, "There is no rank ", rank, " among ", size, " members.");
  member->lose(rank, reason);
}

}  // namespace brigade::cluster::testing
