#include <grpcpp/channel.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/address.h"
#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/cluster/host_lookup.h"
#include "brigade/cluster/membership.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/rpc/channel.h"
#include "brigade/rpc/endpoint.h"
#include "brigade/rpc/join_call.h"
#include "brigade/rpc/pause_detector.h"
#include "brigade/rpc/remote.h"
#include "brigade/rpc/rendezvous.h"
#include "brigade/rpc/rendezvous_state.h"
#include "brigade/rpc/start_report.h"
#include "brigade/rpc/store_calls.h"
#include "brigade/rpc/tls_probe.h"

namespace brigade::rpc {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kGoodbyeTime{500};
// The rendezvous enforces the start's deadline; a member waits a little longer for its message.
constexpr milliseconds kGrace{2000};
// After a broken connection, the time to wait for the report of the lost member.
constexpr milliseconds kLossReportTime{3000};

cluster::Member member_of(const cluster::ClusterConfig& config) {
  // If the look-up takes longer, the address is found in another way.
  constexpr milliseconds kLookUpTime{1000};
  cluster::Member self = this_process(config.rank, config.task);
  const std::string host = cluster::parse_address(config.rendezvous).host;
  if (!cluster::is_loopback(host))
    self.address = cluster::source_address(host, kLookUpTime).value_or("");
  return self;
}

// A launcher of this machine that was stopped (Ctrl-Z) is waited for, since nothing is lost
// meanwhile. If it ends, the connection breaks.
constexpr milliseconds kStoppedTime = std::chrono::hours(24 * 7);

/// Whether the rendezvous is in a launcher on this machine, whose silence can only mean that it was
/// stopped.
bool is_launcher_local(const cluster::ClusterConfig& config) {
  return config.rendezvous_host == cluster::ClusterConfig::RendezvousHost::kLauncher &&
         cluster::is_loopback(cluster::parse_address(config.rendezvous).host);
}

Hello hello_of(const cluster::ClusterConfig& config, const cluster::Member& self,
               milliseconds start_timeout, Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
  return {.member = self,
          .world_size = config.world_size,
          .generation = config.generation,
          .start_timeout = start_timeout,
          .waited = start_timeout - left};
}

/// A membership over a connection to the rendezvous server. It makes one attempt to join; if that
/// succeeds, it lasts until a member is lost or leaves. It has two threads: one receives events
/// (JoinCall), one sends heartbeats and checks that they are answered.
///
/// Thread-safety: as Membership says; the destructor must not run in a callback of `lost_token`.
class RemoteMembership final : public cluster::Membership {
 public:
  RemoteMembership(const cluster::ClusterConfig& config, const JoinOptions& options,
                   TimePoint deadline, const std::shared_ptr<grpc::Channel>& channel)
      : config_(config),
        options_(options),
        deadline_(deadline),
        self_(member_of(config)),
        is_host_local_(is_launcher_local(config)),
        calls_(make_store_calls(
            channel, lost_token_,
            is_host_local_ ? kStoppedTime : milliseconds(options.peer_timeout + kLossReportTime))),
        call_(std::in_place, channel, hello_of(config, self_, options.start_timeout, deadline),
              JoinCall::Handlers{
                  .on_event = [this](const RendezvousEvent& event) { on_event(event); },
                  .on_end = [this](const MembershipEnd& ending) { on_end(ending); },
                  .on_close = [this](const Closure& closure) { on_close(closure); }}),
        beats_([this] { send_beats(); }) {}

  ~RemoteMembership() override {
    leave();
    beats_.join();
    call_.reset();
  }

  /// Reports to `log` which members it waits for. Returns nothing when all have joined, or the
  /// reason why another attempt may succeed. Throws as `join` does.
  std::optional<std::string> wait_for_start(WaitingLog& log) {
    const auto wake = options_.cancel.on_cancel([this] {
      const concurrency::MutexLock lock(mutex_);
      changed_.notify_all();
    });
    std::vector<int> reported;
    for (;;) {
      {
        const concurrency::MutexLock lock(mutex_);
        while (!is_started_ && missing_ == reported) {
          if (auto problem = start_problem()) return problem;
          options_.cancel.throw_if_cancelled("The start of the cluster");
          const TimePoint latest = welcome_ ? deadline_ + kGrace : deadline_;
          if (Clock::now() >= latest) {
            if (!welcome_) return "it did not answer";
            throw Error(ErrorCode::kDeadlineExceeded, describe_host(config_),
                        " did not complete the start within ", in_seconds(options_.start_timeout),
                        ".");
          }
          changed_.wait_until(mutex_, latest);
        }
        if (is_started_) return std::nullopt;
        reported = missing_;
      }
      log.report(waiting_text(config_, reported));
    }
  }

  /// Takes ownership of the server, which ends after this membership.
  void own(std::unique_ptr<RendezvousServer> server) { server_ = std::move(server); }

  const cluster::Member& self() const override { return self_; }
  const std::vector<cluster::Member>& members() const override { return members_; }
  int generation() const override { return config_.generation; }
  void set(std::string_view key, std::string_view value) override {
    guarded(base::str_cat("setting key '", key, "'"),
            [&] { calls_->set(credential(), key, value); });
  }

  std::string get(std::string_view key, milliseconds timeout) override {
    return guarded(base::str_cat("key '", key, "'"),
                   [&] { return calls_->get(credential(), key, timeout); });
  }

  std::int64_t add(std::string_view key, std::int64_t delta) override {
    return guarded(base::str_cat("adding to key '", key, "'"),
                   [&] { return calls_->add(credential(), key, delta); });
  }

  std::int64_t append(std::string_view key, std::string_view value) override {
    return guarded(base::str_cat("appending to key '", key, "'"),
                   [&] { return calls_->append(credential(), key, value); });
  }

  void barrier(std::string_view name, milliseconds timeout) override {
    guarded(base::str_cat("barrier '", name, "'"),
            [&] { calls_->barrier(credential(), name, timeout); });
  }

  std::optional<cluster::LostMember> lost() const override {
    const concurrency::MutexLock lock(mutex_);
    return lost_;
  }

  concurrency::CancelToken lost_token() const override { return lost_token_; }

  void leave() noexcept override {
    {
      const concurrency::MutexLock lock(mutex_);
      if (has_left_) return;
      has_left_ = true;
      changed_.notify_all();
      if (closure_ || !welcome_) return;
    }
    call_->leave();
    {
      // The message must arrive before the connection ends; otherwise the others see a loss.
      const TimePoint latest = Clock::now() + kGoodbyeTime;
      const concurrency::MutexLock lock(mutex_);
      while (!closure_ && Clock::now() < latest) changed_.wait_until(mutex_, latest);
    }
    call_->cancel();
  }

 private:
  void on_event(const RendezvousEvent& event) {
    if (const auto* lost = std::get_if<cluster::LostMember>(&event)) return lose(*lost);
    const concurrency::MutexLock lock(mutex_);
    last_contact_ = Clock::now();
    if (const auto* welcome = std::get_if<Welcome>(&event)) welcome_ = *welcome;
    if (const auto* reply = std::get_if<HeartbeatReply>(&event)) missing_ = reply->missing;
    if (const auto* joined = std::get_if<AllJoined>(&event)) {
      members_ = joined->members;
      is_started_ = true;
    }
    changed_.notify_all();
  }

  void on_end(const MembershipEnd& ending) {
    {
      const concurrency::MutexLock lock(mutex_);
      ending_ = ending;
      // Threads that block on a peer of an ended generation are woken as if a member were lost.
      const bool is_generation_over = is_started_ && ending.error;
      if (is_generation_over)
        record_loss({welcome_->host, ending.error->what(), cluster::LossKind::kEnded});
      changed_.notify_all();
      if (!lost_) return;
    }
    lost_token_.cancel();
  }

  void on_close(const Closure& closure) {
    {
      const concurrency::MutexLock lock(mutex_);
      closure_ = closure;
      const bool is_expected = !welcome_ || ending_ || has_left_;
      // Under the same lock as the closure: a thread that sees the end must also see the cause.
      if (!is_expected) record_loss(loss_by_closure());
      changed_.notify_all();
      if (!lost_) return;
    }
    lost_token_.cancel();
  }

  void lose(const cluster::LostMember& lost) {
    {
      const concurrency::MutexLock lock(mutex_);
      record_loss(lost);
      changed_.notify_all();
    }
    lost_token_.cancel();
  }

  /// Who is lost when the connection breaks without a last message.
  cluster::LostMember loss_by_closure() const BRIGADE_REQUIRES(mutex_) {
    if (const auto pause = pauses_.pause_before(Clock::now(), welcome_->peer_timeout)) {
      const auto time = in_seconds(std::chrono::floor<milliseconds>(*pause));
      return {self_, base::str_cat("it was paused for ", time, " and its connection was closed"),
              cluster::LossKind::kSilent};
    }
    return {welcome_->host, "its connection was closed", cluster::LossKind::kClosed};
  }

  /// Only the first loss is recorded.
  void record_loss(const cluster::LostMember& lost) BRIGADE_REQUIRES(mutex_) {
    if (!lost_) lost_ = lost;
  }

  void send_beats() {
    for (;;) {
      {
        const concurrency::MutexLock lock(mutex_);
        const milliseconds timeout = welcome_
                                         ? std::min(options_.peer_timeout, welcome_->peer_timeout)
                                         : options_.peer_timeout;
        const TimePoint slept_at = Clock::now();
        pauses_.on_heartbeat(slept_at, timeout);
        const bool was_welcome = welcome_.has_value();
        while (!is_over() && was_welcome == welcome_.has_value() &&
               Clock::now() < slept_at + timeout / 4) {
          changed_.wait_until(mutex_, slept_at + timeout / 4);
        }
        if (is_over()) return;
        if (!welcome_) continue;
        if (is_host_silent(slept_at, timeout / 4)) break;
      }
      call_->send_heartbeat();
    }
    cluster::Member host;
    {
      const concurrency::MutexLock lock(mutex_);
      host = welcome_->host;
    }
    lose({host, base::str_cat("it has not been heard from for ", in_seconds(options_.peer_timeout)),
          cluster::LossKind::kSilent});
    call_->cancel();
  }

  bool is_host_silent(TimePoint slept_at, milliseconds interval) BRIGADE_REQUIRES(mutex_) {
    if (is_host_local_) return false;
    const TimePoint now = Clock::now();
    // If this process was stopped for a while, it received nothing for that reason; the host
    // decides who is lost.
    if (now - slept_at > interval + options_.peer_timeout / 2) last_contact_ = now;
    return now - last_contact_ > options_.peer_timeout;
  }

  bool is_over() const BRIGADE_REQUIRES(mutex_) { return has_left_ || closure_ || ending_; }

  std::optional<std::string> start_problem() BRIGADE_REQUIRES(mutex_) {
    if (lost_) throw cluster::lost_error(*lost_, "the start");
    if (!ending_) return closure_problem();
    if (!ending_->error) {
      throw Error(ErrorCode::kUnavailable, describe_host(config_),
                  " has left before all members had joined.");
    }
    if (!ending_->missing.empty()) {
      throw Error(ErrorCode::kDeadlineExceeded,
                  missing_text(config_, ending_->missing, ending_->waited));
    }
    if (ending_->rank_holder) throw RankTakenError(*ending_->rank_holder, ending_->error->what());
    if (!ending_->may_retry) throw *ending_->error;
    return ending_->error->what();
  }

  std::optional<std::string> closure_problem() const BRIGADE_REQUIRES(mutex_) {
    if (!closure_) return std::nullopt;
    if (closure_->kind == Closure::Kind::kStranger) {
      throw Error(ErrorCode::kFailedPrecondition, "What answers for ", describe_host(config_),
                  " is not a Brigade rendezvous (", closure_->text, ").");
    }
    return closure_->text.empty() ? "the connection was closed" : closure_->text;
  }

  Credential credential() const BRIGADE_EXCLUDES(mutex_) {
    const concurrency::MutexLock lock(mutex_);
    return welcome_->credential;
  }

  void throw_if_over(std::string_view what) const BRIGADE_EXCLUDES(mutex_) {
    const concurrency::MutexLock lock(mutex_);
    check_state(!has_left_, "This process has left its membership.");
    const bool is_failed = ending_ && ending_->error;
    if (is_failed && ending_->error->code() == ErrorCode::kAborted) throw *ending_->error;
    if (lost_) throw cluster::lost_error(*lost_, what);
    if (ending_) {
      throw Error(ErrorCode::kUnavailable, welcome_->host,
                  ", which served the rendezvous, has left; ", what, " is given up.");
    }
  }

  [[noreturn]] void throw_connection_error(std::string_view what, const ConnectionError& error) {
    {
      const TimePoint latest = Clock::now() + kLossReportTime;
      const concurrency::MutexLock lock(mutex_);
      while (!lost_ && !is_over() && Clock::now() < latest) changed_.wait_until(mutex_, latest);
    }
    throw_if_over(what);
    throw Error(ErrorCode::kUnavailable, describe_host(config_), " could not be reached (",
                error.what(), "); ", what, " is given up.");
  }

  template <class Call>
  std::invoke_result_t<Call> guarded(std::string_view what, const Call& call) {
    throw_if_over(what);
    try {
      return call();
    } catch (const ConnectionError& error) {
      throw_connection_error(what, error);
    }
  }

  const cluster::ClusterConfig config_;
  const JoinOptions options_;
  const TimePoint deadline_;
  const cluster::Member self_;
  const concurrency::CancelToken lost_token_;
  const bool is_host_local_;  // in a launcher of this machine

  mutable concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  std::optional<Welcome> welcome_ BRIGADE_GUARDED_BY(mutex_);
  std::optional<cluster::LostMember> lost_ BRIGADE_GUARDED_BY(mutex_);
  std::optional<MembershipEnd> ending_ BRIGADE_GUARDED_BY(mutex_);  // the rendezvous' last message
  std::optional<Closure> closure_ BRIGADE_GUARDED_BY(mutex_);       // the connection's end
  bool has_left_ BRIGADE_GUARDED_BY(mutex_) = false;
  bool is_started_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::vector<int> missing_ BRIGADE_GUARDED_BY(mutex_);  // ranks, by the last heartbeat reply
  TimePoint last_contact_ BRIGADE_GUARDED_BY(mutex_);
  PauseDetector pauses_ BRIGADE_GUARDED_BY(mutex_){Clock::now()};
  std::vector<cluster::Member> members_;  // written once, before is_started_

  std::unique_ptr<RendezvousServer> server_;
  std::unique_ptr<StoreCalls> calls_;
  std::optional<JoinCall> call_;
  std::jthread beats_;
};

constexpr milliseconds kFirstPause{20};
constexpr milliseconds kLongestPause{300};
// After this time the log says which process it waits for.
constexpr milliseconds kPatience{2000};
constexpr milliseconds kProbeTime{1000};

std::unique_ptr<RendezvousServer> serve_if_first(const cluster::ClusterConfig& config,
                                                 const JoinOptions& options) {
  const bool is_ours = config.rank == 0 && config.rendezvous_host ==
                                               cluster::ClusterConfig::RendezvousHost::kFirstMember;
  if (!is_ours) return nullptr;
  if (!options.key) base::log_info(keyless_text(config));
  return make_remote_server({.address = config.rendezvous,
                             .key = options.key,
                             .world_size = config.world_size,
                             .generation = config.generation,
                             .peer_timeout = options.peer_timeout},
                            this_process(config.rank, config.task));
}

/// Waits between two attempts, not beyond the deadline; a cancelled token ends it. Drives a
/// connection that is not ready meanwhile: gRPC makes progress with a connection attempt only while
/// a caller waits for it, otherwise every 5 s.
void pause(milliseconds time, Clock::time_point deadline, const concurrency::CancelToken& cancel,
           grpc::Channel& channel) {
  const milliseconds wait =
      std::min(time, std::chrono::ceil<milliseconds>(deadline - Clock::now()));
  if (channel.GetState(false) == GRPC_CHANNEL_READY) {
    return concurrency::interruptible_wait(wait, cancel);
  }
  channel.WaitForConnected(std::chrono::system_clock::now() + wait);
}

[[noreturn]] void throw_unreachable(const cluster::ClusterConfig& config,
                                    const JoinOptions& options, const std::string& last_problem) {
  throw Error(ErrorCode::kDeadlineExceeded, describe_host(config), " could not be reached within ",
              in_seconds(options.start_timeout),
              "; see whether it was started, and whether all processes have the same cluster key (",
              last_problem, ").");
}

/// After a failed connection attempt: throws if the reason is the key.
void require_same_key(const cluster::ClusterConfig& config, const cluster::Address& address,
                      const cluster::TlsIdentity& identity) {
  if (probe_tls(address, identity, kProbeTime) != TlsVerdict::kRefused) return;
  throw Error(ErrorCode::kPermissionDenied, "The cluster key of this process differs from that of ",
              describe_host(config), ", or only one of the two has one.");
}

}  // namespace

std::shared_ptr<cluster::Membership> join_remote(const cluster::ClusterConfig& config,
                                                 const JoinOptions& options) {
  const auto begun_at = Clock::now();
  const auto deadline = begun_at + std::min(options.start_timeout, kLongestWait);
  auto server = serve_if_first(config, options);
  const auto address = cluster::parse_address(config.rendezvous);
  const auto channel =
      make_channel(server ? connect_to_self_text(address) : connect_text(address), options.key);
  std::optional<cluster::TlsIdentity> identity;
  milliseconds next_pause = kFirstPause;
  WaitingLog log;
  for (;;) {
    auto membership = std::make_shared<RemoteMembership>(config, options, deadline, channel);
    const auto problem = membership->wait_for_start(log);
    if (!problem) {
      log.report_all_joined(config.world_size);
      membership->own(std::move(server));
      return membership;
    }
    membership.reset();
    if (options.key && channel->GetState(false) != GRPC_CHANNEL_READY) {
      if (!identity) identity = cluster::make_tls_identity(*options.key);
      require_same_key(config, address, *identity);
    }
    if (Clock::now() > begun_at + kPatience)
      log.report(base::str_cat("Waiting for ", describe_host(config)));
    pause(next_pause, deadline, options.cancel, *channel);
    options.cancel.throw_if_cancelled("The start of the cluster");
    if (Clock::now() >= deadline) throw_unreachable(config, options, *problem);
    next_pause = std::min(next_pause * 2, kLongestPause);
  }
}

}  // namespace brigade::rpc
