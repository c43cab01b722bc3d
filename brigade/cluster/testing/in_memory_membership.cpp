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
class Group {
 public:
  explicit Group(std::vector<Member> members) : members_(std::move(members)) {}

  const std::vector<Member>& members() const { return members_; }

  void set(std::string_view key, std::string_view value) {
    const concurrency::MutexLock lock(mutex_);
    values_.insert_or_assign(std::string(key), std::string(value));
    changed_.notify_all();
  }

  std::string get(std::string_view key, std::chrono::milliseconds timeout) {
    const std::string name(key);
    const Deadline deadline = deadline_after(timeout);
    const concurrency::MutexLock lock(mutex_);
    while (true) {
      const auto found = values_.find(name);
      if (found != values_.end()) return found->second;
      check_not_lost(base::str_cat("the wait for the key '", key, "'"));
      if (changed_.wait_until(mutex_, deadline)) continue;
      if (values_.contains(name)) continue;
      throw Error(
          ErrorCode::kDeadlineExceeded,
          base::str_cat("No member has set the key '", key, "' within ", timeout.count(), " ms."));
    }
  }

  std::int64_t add(std::string_view key, std::int64_t delta) {
    const concurrency::MutexLock lock(mutex_);
    std::string& text = values_.try_emplace(std::string(key), "0").first->second;
    const auto before = base::parse_int(text);
    check_argument(before.has_value(),
                   base::str_cat("The value under the key '", key, "' is not a number."));
    text = std::to_string(*before + delta);
    changed_.notify_all();
    return *before + delta;
  }

  std::int64_t append(std::string_view key, std::string_view value) {
    const concurrency::MutexLock lock(mutex_);
    const std::int64_t number = ++lengths_[std::string(key)];
    values_.insert_or_assign(base::str_cat(key, "/", number), std::string(value));
    changed_.notify_all();
    return number;
  }

  void barrier(int rank, std::string_view name, std::chrono::milliseconds timeout) {
    const Deadline deadline = deadline_after(timeout);
    const concurrency::MutexLock lock(mutex_);
    std::set<int>& arrived = barriers_[std::string(name)];
    check_state(arrived.insert(rank).second,
                base::str_cat("Rank ", rank, " reached the barrier '", name,
                              "' a second time; each name can be used once."));
    changed_.notify_all();
    while (arrived.size() < members_.size()) {
      check_not_lost(base::str_cat("the barrier '", name, "'"));
      check_not_left(arrived, name);
      if (changed_.wait_until(mutex_, deadline) || arrived.size() == members_.size()) continue;
      throw Error(ErrorCode::kDeadlineExceeded,
                  base::str_cat("Not all members reached the barrier '", name, "' within ",
                                timeout.count(), " ms; missing: ", missing(arrived), "."));
    }
  }

  std::optional<LostMember> lost() const {
    const concurrency::MutexLock lock(mutex_);
    return lost_;
  }

  concurrency::CancelToken lost_token() const { return lost_token_; }

  void lose(int rank, const std::string& reason) {
    {
      const concurrency::MutexLock lock(mutex_);
      if (left_.contains(rank) || lost_) return;  // only the first loss counts
      lost_ = LostMember{members_.at(static_cast<std::size_t>(rank)), reason};
      changed_.notify_all();
    }
    lost_token_.cancel();  // runs callbacks, which may call this group
  }

  void leave(int rank) {
    const concurrency::MutexLock lock(mutex_);
    left_.insert(rank);
    changed_.notify_all();
  }

 private:
  void check_not_lost(const std::string& what) const BRIGADE_REQUIRES(mutex_) {
    if (!lost_) return;
    throw lost_error(*lost_, what);
  }

  // Fails before the deadline if a rank has left and so cannot arrive.
  void check_not_left(const std::set<int>& arrived, std::string_view name) const
      BRIGADE_REQUIRES(mutex_) {
    for (const int rank : left_) {
      if (arrived.contains(rank)) continue;
      throw Error(ErrorCode::kUnavailable,
                  base::str_cat(members_[static_cast<std::size_t>(rank)],
                                " has left before the barrier '", name, "'."));
    }
  }

  std::string missing(const std::set<int>& arrived) const {
    std::vector<std::string> names;
    for (const Member& member : members_) {
      if (!arrived.contains(member.rank)) names.push_back(to_string(member));
    }
    return base::join(names, ", ");
  }

  const std::vector<Member> members_;
  const concurrency::CancelToken lost_token_;
  mutable concurrency::Mutex mutex_;
  mutable concurrency::Condition changed_;
  std::map<std::string, std::string> values_ BRIGADE_GUARDED_BY(mutex_);
  std::map<std::string, std::int64_t> lengths_ BRIGADE_GUARDED_BY(mutex_);  // of lists
  std::map<std::string, std::set<int>> barriers_ BRIGADE_GUARDED_BY(mutex_);
  std::optional<LostMember> lost_ BRIGADE_GUARDED_BY(mutex_);
  std::set<int> left_ BRIGADE_GUARDED_BY(mutex_);
};

class InMemoryMembership final : public Membership {
 public:
  InMemoryMembership(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)), rank_(rank) {}
  ~InMemoryMembership() override { group_->leave(rank_); }

  const Member& self() const override { return members()[static_cast<std::size_t>(rank_)]; }
  const std::vector<Member>& members() const override { return group_->members(); }
  int generation() const override { return 0; }
  void set(std::string_view key, std::string_view value) override { group_->set(key, value); }
  std::string get(std::string_view key, std::chrono::milliseconds timeout) override {
    return group_->get(key, timeout);
  }
  std::int64_t add(std::string_view key, std::int64_t delta) override {
    return group_->add(key, delta);
  }
  std::int64_t append(std::string_view key, std::string_view value) override {
    return group_->append(key, value);
  }
  void barrier(std::string_view name, std::chrono::milliseconds timeout) override {
    group_->barrier(rank_, name, timeout);
  }
  std::optional<LostMember> lost() const override { return group_->lost(); }
  concurrency::CancelToken lost_token() const override { return group_->lost_token(); }
  void leave() noexcept override { group_->leave(rank_); }

  Group& group() { return *group_; }

 private:
  std::shared_ptr<Group> group_;
  int rank_;
};

}  // namespace

std::vector<std::shared_ptr<Membership>> make_in_memory_memberships(
    int size, const std::vector<std::string>& hosts) {
  check_argument(size > 0, base::str_cat("A group needs at least one member, not ", size, "."));
  check_argument(hosts.empty() || hosts.size() == static_cast<std::size_t>(size),
                 base::str_cat("There are ", size, " members, but ", hosts.size(), " hosts."));
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
  check_argument(rank >= 0 && rank < size,
                 base::str_cat("There is no rank ", rank, " among ", size, " members."));
  member->group().lose(rank, reason);
}

}  // namespace brigade::cluster::testing
