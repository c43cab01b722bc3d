#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/membership.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/rpc/join_call.h"
#include "brigade/rpc/rendezvous.h"
#include "brigade/rpc/start_report.h"
#include "brigade/rpc/store_calls.h"

namespace brigade::rpc {

/// A membership over a connection to the rendezvous server. It makes one attempt to join; if that
/// succeeds, it lasts until a member is lost or leaves. It has two threads: one receives events
/// (JoinCall), one sends heartbeats and checks that they are answered.
///
/// Thread-safety: as Membership says; the destructor must not run in a callback of `lost_token`.
class RemoteMembership final : public cluster::Membership {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  RemoteMembership(const cluster::ClusterConfig& config, const JoinOptions& options,
                   TimePoint deadline, const std::shared_ptr<grpc::Channel>& channel);
  ~RemoteMembership() override;

  /// Reports to `log` which members it waits for. Returns nothing when all have joined, or the
  /// reason why another attempt may succeed. Throws as `join` does.
  std::optional<std::string> wait_for_start(WaitingLog& log);
  /// Takes ownership of the server, which ends after this membership.
  void own(std::unique_ptr<RendezvousServer> server) { server_ = std::move(server); }

  const cluster::Member& self() const override { return self_; }
  const std::vector<cluster::Member>& members() const override { return members_; }
  int generation() const override { return config_.generation; }
  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, std::chrono::milliseconds timeout) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  std::int64_t append(std::string_view key, std::string_view value) override;
  void barrier(std::string_view name, std::chrono::milliseconds timeout) override;
  std::optional<cluster::LostMember> lost() const override;
  concurrency::CancelToken lost_token() const override { return lost_token_; }
  void leave() noexcept override;

 private:
  JoinCall::Handlers handlers();
  void on_event(const Event& event);
  void on_end(const MembershipEnd& ending);
  void on_close(const Closure& closure);
  void lose(const cluster::LostMember& lost);
  /// Only the first loss is recorded.
  void record_loss(const cluster::LostMember& lost) BRIGADE_REQUIRES(mutex_);

  void send_beats();
  bool is_host_silent(TimePoint slept_at, std::chrono::milliseconds interval)
      BRIGADE_REQUIRES(mutex_);
  bool is_over() const BRIGADE_REQUIRES(mutex_) { return has_left_ || closure_ || ending_; }

  std::optional<std::string> start_problem() BRIGADE_REQUIRES(mutex_);
  std::optional<std::string> closure_problem() const BRIGADE_REQUIRES(mutex_);
  [[noreturn]] void throw_start_timeout() const;
  Credential credential() const BRIGADE_EXCLUDES(mutex_);
  void throw_if_over(std::string_view what) const BRIGADE_EXCLUDES(mutex_);
  [[noreturn]] void throw_connection_error(std::string_view what, const ConnectionError& error);
  template <class Call>
  auto guarded(std::string_view what, const Call& call);

  const cluster::ClusterConfig config_;
  const JoinOptions options_;
  const TimePoint deadline_;
  const cluster::Member self_;
  const concurrency::CancelToken lost_token_;
  const bool is_host_here_;  // in a launcher of this machine

  mutable concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  std::optional<Welcome> welcome_ BRIGADE_GUARDED_BY(mutex_);
  std::optional<cluster::LostMember> lost_ BRIGADE_GUARDED_BY(mutex_);
  std::optional<MembershipEnd> ending_ BRIGADE_GUARDED_BY(mutex_);  // the rendezvous' last message
  std::optional<Closure> closure_ BRIGADE_GUARDED_BY(mutex_);       // the connection's end
  bool has_left_ BRIGADE_GUARDED_BY(mutex_) = false;
  bool is_started_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::vector<int> missing_ BRIGADE_GUARDED_BY(mutex_);  // ranks, by the last answer to a beat
  TimePoint heard_at_ BRIGADE_GUARDED_BY(mutex_);
  std::vector<cluster::Member> members_;  // written once, before is_started_

  std::unique_ptr<RendezvousServer> server_;
  std::unique_ptr<StoreCalls> calls_;
  std::unique_ptr<JoinCall> call_;
  std::jthread beats_;
};

}  // namespace brigade::rpc
