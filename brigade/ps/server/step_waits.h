#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "brigade/concurrency/mutex.h"
#include "brigade/ps/parameter_service.h"

namespace brigade::ps {

/// The calls of `begin_step` at a listener, which block. Each is made in short pieces, so that its
/// thread is free soon after the caller is gone or the listener ends.
///
/// A task has one such call at a time. A later one ends the earlier: its caller has lost the
/// connection and called again.
///
/// Thread-safety: all functions from any thread.
class StepWaits {
 public:
  using Time = ParameterService::Time;

  explicit StepWaits(ParameterService& service) : service_(service) {}

  /// Makes the call. Throws what the service throws, what `check` throws, which is called between
  /// the pieces, and kResourceExhausted once a later call with the same token has begun.
  BeginStepReply run(const std::string& token, const BeginStepRequest& request, Time deadline,
                     const std::function<void()>& check) BRIGADE_EXCLUDES(mutex_);

 private:
  class Wait;
  std::uint64_t enter(const std::string& token) BRIGADE_EXCLUDES(mutex_);
  void leave(const std::string& token, std::uint64_t number) BRIGADE_EXCLUDES(mutex_);
  void check_latest(const std::string& token, std::uint64_t number) BRIGADE_EXCLUDES(mutex_);

  ParameterService& service_;
  concurrency::Mutex mutex_;
  std::uint64_t last_number_ BRIGADE_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::uint64_t> latest_ BRIGADE_GUARDED_BY(mutex_);  // call by token
};

}  // namespace brigade::ps
