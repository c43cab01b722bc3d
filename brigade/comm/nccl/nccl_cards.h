#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/comm/nccl/nccl_communicator.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::comm {

/// The NCCL group of the GPUs of one process. A collective is only queued on each rank's stream:
/// the host waits until all ranks have made the call and NCCL has queued it, not for the GPU.
///
/// If a rank fails, what all ranks have queued is aborted, which releases their streams, and the
/// other ranks' calls throw an error that quotes it. The first failure ends the group.
///
/// Thread-safety: each rank from its own thread.
class NcclCards final : public NcclRunner {
 public:
  /// Returns when all ranks have joined. A call that takes longer than `timeout` fails. Throws
  /// kUnavailable with NCCL's text.
  NcclCards(std::unique_ptr<NcclClique> clique, std::chrono::milliseconds timeout);
  /// Waits up to five seconds for what is queued, then aborts it.
  ~NcclCards() override;
  NcclCards(const NcclCards&) = delete;
  NcclCards& operator=(const NcclCards&) = delete;

  bool takes(const CollectiveCall& call) const override { return clique_->takes(call); }
  /// Throws kUnavailable with NCCL's text if the rank fails, kAborted if another one has failed,
  /// kDeadlineExceeded.
  void run(int local_rank, const CollectiveCall& call) override;
  void finish(int local_rank) override;
  void throw_if_failed() override;
  void abandon(int local_rank, const std::string& reason) noexcept override;

 private:
  enum class Until { kQueued, kDone };

  void start(int local_rank, const CollectiveCall& call);
  void wait(int local_rank, std::string_view what, Until until);
  NcclStatus status(int local_rank) BRIGADE_REQUIRES(mutex_);
  void end(int local_rank, const std::string& reason) BRIGADE_REQUIRES(mutex_);
  [[noreturn]] void fail(int local_rank, ErrorCode code, const std::string& reason)
      BRIGADE_REQUIRES(mutex_);

  const std::chrono::milliseconds timeout_;
  concurrency::Mutex mutex_;
  const std::unique_ptr<NcclClique> clique_;                 // `takes` apart, under mutex_
  std::optional<Error> failure_ BRIGADE_GUARDED_BY(mutex_);  // what other ranks' calls throw
};

}  // namespace brigade::comm
