#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/base/clock.h"
#include "brigade/base/error.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/ps/coordinator/coordinator_core.h"

/// A coordinator in the test's process, with the faults of a network and of a machine.
namespace brigade::ps::testing {

/// The functions of `CoordinatorService`.
enum class CoordinatorCall { kJoin, kRenew, kTake, kFinish, kLeave };

/// A `CoordinatorCore` to which tests connect as if over a network: replies can be lost, and the
/// coordinator can go down and be started again, without what it knew. Leases end only in
/// `core()->tick()`, which the test calls.
///
/// Thread-safety: all functions from any thread.
class LocalCoordinator {
 public:
  explicit LocalCoordinator(CoordinatorCoreOptions options) : options_(std::move(options)) {
    start();
  }

  /// A connection. The coordinator must outlive it, but may be down meanwhile: then calls throw
  /// kUnavailable.
  std::unique_ptr<CoordinatorService> connect();

  /// The one that runs. Throws kUnavailable while it is down.
  std::shared_ptr<CoordinatorCore> core() const {
    const concurrency::MutexLock lock(mutex_);
    if (!core_) throw Error(ErrorCode::kUnavailable, "The test's coordinator is down.");
    return core_;
  }
  void stop() {
    std::shared_ptr<CoordinatorCore> stopped;
    {
      const concurrency::MutexLock lock(mutex_);
      stopped = std::exchange(core_, nullptr);
    }
    if (stopped) stopped->close();
  }
  void start() {
    auto started = std::make_shared<CoordinatorCore>(options_, clock_);
    const concurrency::MutexLock lock(mutex_);
    core_ = std::move(started);
  }

  /// The next `count` calls of this kind are done, but their callers get kUnavailable.
  void lose_replies(CoordinatorCall call, int count = 1) {
    const concurrency::MutexLock lock(mutex_);
    lost_replies_[call] = count;
  }
  /// Later calls of this kind are done, and their callers wait until `release_replies`.
  void hold_replies(CoordinatorCall call) {
    const concurrency::MutexLock lock(mutex_);
    held_ = call;
  }
  void release_replies() {
    const concurrency::MutexLock lock(mutex_);
    held_.reset();
    released_.notify_all();
  }
  /// Calls of this kind so far that the coordinator has answered.
  int calls(CoordinatorCall call) const {
    const concurrency::MutexLock lock(mutex_);
    const auto found = calls_.find(call);
    return found == calls_.end() ? 0 : found->second;
  }

 private:
  friend class LocalCoordinatorService;

  void record(CoordinatorCall call) {
    const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    const concurrency::MutexLock lock(mutex_);
    ++calls_[call];
    while (held_ == call && std::chrono::steady_clock::now() < latest)
      released_.wait_until(mutex_, latest);
    const auto lost = lost_replies_.find(call);
    if (lost == lost_replies_.end() || lost->second == 0) return;
    --lost->second;
    throw Error(ErrorCode::kUnavailable, "The test loses this reply.");
  }

  const CoordinatorCoreOptions options_;
  const base::SystemClock clock_;
  mutable concurrency::Mutex mutex_;
  std::shared_ptr<CoordinatorCore> core_ BRIGADE_GUARDED_BY(mutex_);
  concurrency::Condition released_;
  std::optional<CoordinatorCall> held_ BRIGADE_GUARDED_BY(mutex_);
  std::map<CoordinatorCall, int> lost_replies_ BRIGADE_GUARDED_BY(mutex_);
  std::map<CoordinatorCall, int> calls_ BRIGADE_GUARDED_BY(mutex_);
};

class LocalCoordinatorService final : public CoordinatorService {
 private:
  template <class Call>
  auto recorded(CoordinatorCall call, const Call& make) {
    const std::shared_ptr<CoordinatorCore> core = coordinator_.core();
    auto reply = make(*core);
    coordinator_.record(call);
    return reply;
  }

 public:
  explicit LocalCoordinatorService(LocalCoordinator& coordinator) : coordinator_(coordinator) {}

  WorkerGrant join(const WorkerJoin& request, Time deadline) override {
    return recorded(CoordinatorCall::kJoin,
                    [&](CoordinatorCore& core) { return core.join(request, deadline); });
  }
  WorkerStatus renew(const std::string& token, std::int64_t running, Time deadline) override {
    return recorded(CoordinatorCall::kRenew,
                    [&](CoordinatorCore& core) { return core.renew(token, running, deadline); });
  }
  TakeReply take(const std::string& token, const TakeRequest& request, Time deadline) override {
    // A short wait, so that a worker that is cancelled ends soon.
    TakeRequest part = request;
    part.wait = std::min(part.wait, std::chrono::milliseconds(50));
    return recorded(CoordinatorCall::kTake,
                    [&](CoordinatorCore& core) { return core.take(token, part, deadline); });
  }
  void finish(const std::string& token, const FunctionReport& report, Time deadline) override {
    recorded(CoordinatorCall::kFinish, [&](CoordinatorCore& core) {
      core.finish(token, report, deadline);
      return true;
    });
  }
  void leave(const std::string& token, Time deadline) override {
    recorded(CoordinatorCall::kLeave, [&](CoordinatorCore& core) {
      core.leave(token, deadline);
      return true;
    });
  }

 private:
  LocalCoordinator& coordinator_;
};

inline std::unique_ptr<CoordinatorService> LocalCoordinator::connect() {
  return std::make_unique<LocalCoordinatorService>(*this);
}

}  // namespace brigade::ps::testing
