#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/cluster/membership.h"
#include "brigade/comm/nccl/nccl_communicator.h"
#include "brigade/comm/peer_status.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::comm {

/// A clique whose waits always end: with the collective, or with an error that names the cause if a
/// member is lost, NCCL fails here or in another process, or the deadline passes. The first error
/// ends the group: what runs on the GPUs is aborted, the other members are notified, and every
/// later call throws the error again.
///
/// Thread-safety: each local rank from its own thread; the rest from one thread.
class NcclGroup final : public NcclRunner {
 public:
  /// Returns when all ranks of all processes have joined. `name` is the prefix of its keys in the
  /// membership's store.
  NcclGroup(std::unique_ptr<NcclClique> clique, std::shared_ptr<cluster::Membership> membership,
            const std::string& name, const CommunicationOptions& options);
  /// Waits up to a few seconds for the others to close the group too, then aborts it.
  ~NcclGroup() override;
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  bool takes(const CollectiveCall& call) const override { return clique_->takes(call); }

  /// Returns when the collective is complete on the GPU. Throws kUnavailable naming a lost member,
  /// or with NCCL's text; kAborted with another member's reason; kDeadlineExceeded.
  void run(int local_rank, const CollectiveCall& call) override;
  void abandon(int local_rank, const std::string& reason) noexcept override;

 private:
  enum class Progress { kUnderWay, kDone };

  void start(int local_rank, const CollectiveCall& call);
  void wait(int local_rank, std::string_view what, std::chrono::milliseconds timeout);
  Progress poll(int local_rank, std::string_view what);
  void look_for_reasons(std::string_view what);
  /// Returns whether there is anything to wait for.
  bool start_closing() noexcept;
  bool has_closed() noexcept;
  [[noreturn]] void fail(Error error) BRIGADE_REQUIRES(mutex_);
  [[noreturn]] void fail_as_broken(std::string_view what, std::string_view text)
      BRIGADE_REQUIRES(mutex_);

  const std::shared_ptr<cluster::Membership> membership_;
  const CommunicationOptions options_;
  concurrency::Mutex mutex_;
  const std::unique_ptr<NcclClique> clique_;  // `takes` apart, under mutex_
  PeerStatus peer_status_ BRIGADE_GUARDED_BY(mutex_);
  std::optional<Error> failure_ BRIGADE_GUARDED_BY(mutex_);
};

}  // namespace brigade::comm
