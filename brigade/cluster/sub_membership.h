#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/cluster/membership.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::cluster {

/// Some members of a membership as one of their own, for a communicator between them alone. Their
/// ranks are counted from 0; tasks, hosts and pids, by which errors name them, are unchanged. The
/// store is the whole membership's, under keys that begin with the name. The loss of any member of
/// the whole is one here.
///
/// `close` ends the waits of this process alone: they see this process as lost.
///
/// Thread-safety: all functions from any thread.
class SubMembership final : public Membership {
 public:
  /// `ranks`: of the members in the whole, in their new order. Throws kInvalidArgument if this
  /// process is not among them. All of them use the same `name`, and use it once.
  SubMembership(std::shared_ptr<Membership> whole, const std::vector<int>& ranks, std::string name);

  const Member& self() const override { return members_[self_]; }
  const std::vector<Member>& members() const override { return members_; }
  int generation() const override { return whole_->generation(); }

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, std::chrono::milliseconds timeout) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  std::int64_t append(std::string_view key, std::string_view value) override;
  void barrier(std::string_view name, std::chrono::milliseconds timeout) override;

  std::optional<LostMember> lost() const override;
  concurrency::CancelToken lost_token() const override { return token_.token(); }
  /// Does nothing: the whole is left as a whole.
  void leave() noexcept override {}

  /// Cancels `lost_token`, for `reason`.
  void close(const std::string& reason);

 private:
  std::string key_of(std::string_view key) const;

  const std::shared_ptr<Membership> whole_;
  const std::string name_;
  std::vector<Member> members_;
  std::size_t self_ = 0;
  mutable concurrency::Mutex mutex_;
  std::optional<std::string> closed_ BRIGADE_GUARDED_BY(mutex_);
  const concurrency::LinkedToken token_;
};

}  // namespace brigade::cluster
