#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/cluster/membership.h"
#include "brigade/comm/nccl/nccl_communicator.h"
#include "brigade/comm/peer_status.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::comm {

/// A clique between processes whose collectives always end: on the GPU, or with an error that names
/// the cause. A call is queued on the rank's stream and returns; the host waits only until NCCL has
/// queued it, for which all ranks must have made the call.
///
/// A thread of the group watches the collectives that are queued. If a member is lost, NCCL fails
/// here or in another process, or the deadline passes, it ends the group: what runs on the GPUs is
/// aborted, the other members are notified, and every later call throws the error. Work that was
/// queued after an aborted collective still runs, on invalid values; `finish` says
/// whether there was one, once the GPU has completed everything.
///
/// Thread-safety: each local rank from its own thread; the rest from one thread.
class NcclGroup final : public NcclRunner {
 public:
  /// Returns when all ranks of all processes have joined. `name` is the prefix of its keys in the
  /// membership's store.
  NcclGroup(std::unique_ptr<NcclClique> clique, std::shared_ptr<cluster::Membership> membership,
            const std::string& name, const CommunicationOptions& options);
  /// Waits up to a few seconds for what is queued and for the others to close the group too, then
  /// aborts it.
  ~NcclGroup() override;
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  bool takes(const CollectiveCall& call) const override { return clique_->takes(call); }

  /// Both throw kUnavailable naming a lost member, or with NCCL's text; kAborted with another
  /// member's reason; kDeadlineExceeded if a collective does not end in time, counted from when it
  /// was queued or the one before it has ended.
  void run(int local_rank, const CollectiveCall& call) override;
  void finish(int local_rank) override;
  void throw_if_failed() override;
  void abandon(int local_rank, const std::string& reason) noexcept override;

 private:
  /// A collective of one local rank that may not have ended.
  struct Queued {
    int local_rank = 0;
    std::uint64_t number = 0;    // of the rank, from 1
    std::string_view what = {};  // a literal
  };

  void join();
  void start(int local_rank, const CollectiveCall& call);
  void wait_until_queued(int local_rank, std::string_view what);
  bool has_finished(int local_rank);
  void watch();
  void watch_queued() BRIGADE_REQUIRES(mutex_);
  void forget_finished() BRIGADE_REQUIRES(mutex_);
  void watch_front() BRIGADE_REQUIRES(mutex_);
  NcclStatus checked_status(int local_rank, std::string_view what) BRIGADE_REQUIRES(mutex_);
  void end_watching();
  /// Returns whether there is anything to wait for.
  [[noreturn]] void fail(Error error) BRIGADE_REQUIRES(mutex_);
  [[noreturn]] void fail_as_broken(std::string_view what, std::string_view text)
      BRIGADE_REQUIRES(mutex_);
  void end(Error error) BRIGADE_REQUIRES(mutex_);

  const std::shared_ptr<cluster::Membership> membership_;
  const CommunicationOptions options_;
  concurrency::Mutex mutex_;
  concurrency::Condition changed_;            // queued_, failure_ or is_ending_
  const std::unique_ptr<NcclClique> clique_;  // `takes` apart, under mutex_
  PeerStatus peer_status_ BRIGADE_GUARDED_BY(mutex_);
  std::optional<Error> failure_ BRIGADE_GUARDED_BY(mutex_);
  std::deque<Queued> queued_ BRIGADE_GUARDED_BY(mutex_);            // in the order of their starts
  std::vector<std::uint64_t> started_ BRIGADE_GUARDED_BY(mutex_);   // [local rank]
  std::vector<std::uint64_t> finished_ BRIGADE_GUARDED_BY(mutex_);  // [local rank]
  std::optional<CollectiveWatchdog> watchdog_ BRIGADE_GUARDED_BY(mutex_);  // of queued_.front()
  std::chrono::steady_clock::time_point next_question_ BRIGADE_GUARDED_BY(mutex_);
  bool is_ending_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::thread watcher_;  // begins when all have joined
};

}  // namespace brigade::comm
