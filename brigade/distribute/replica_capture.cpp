#include "brigade/distribute/replica_capture.h"

#include <exception>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/distribute/compiled_step.h"

namespace brigade::distribute {

namespace {

/// What the step calls in a replica finds the capture.
class CapturedContext {
 public:
  CapturedContext(ReplicaContext& context, StepCapture& capture) : context_(context) {
    context.set_capture(&capture);
  }
  ~CapturedContext() { context_.set_capture(nullptr); }
  CapturedContext(const CapturedContext&) = delete;
  CapturedContext& operator=(const CapturedContext&) = delete;

 private:
  ReplicaContext& context_;
};

std::vector<at::Tensor> joined(const std::vector<std::vector<at::Tensor>>& lists) {
  std::vector<at::Tensor> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace

ReplicaCapture::ReplicaCapture(int replicas, int warmup, device::GraphFactory make)
    : capture_(warmup, std::move(make)),
      barrier_({.parties = replicas, .party_name = "replica"}),
      random_(static_cast<std::size_t>(replicas)),
      results_of_(static_cast<std::size_t>(replicas)),
      joined_(static_cast<std::size_t>(replicas)) {}

ReplicaCapture::Next ReplicaCapture::plan(const std::vector<TensorList>& given) {
  barrier_.reset();
  given_ = joined(given);
  next_ = capture_.plan(given_);
  if (next_ == Next::kEager) given_.clear();
  return next_;
}

void ReplicaCapture::run(ReplicaContext& context, const at::Generator& random, const Step& step) {
  const int replica = context.local_id;
  random_[static_cast<std::size_t>(replica)] = random;
  try {
    // Replicas of one GPU share the optimizers' state, and so one of them does this.
    if (replica == 0) update_device_counters(context.strategy(), replica);
    if (next_ == Next::kCapture) capture(context, step);
    barrier_.arrive_and_wait(replica);  // all generators are seeded
    if (replica == 0) {
      results_ = capture_.replay(given_);
      given_.clear();
    }
    barrier_.arrive_and_wait(replica);  // nobody reads what the host's part of a replay changes
  } catch (const std::exception& error) {
    barrier_.abort(replica, std::string(base::without_stack_trace(error.what())));
    throw;
  }
}

void ReplicaCapture::capture(ReplicaContext& context, const Step& step) {
  const int replica = context.local_id;
  const auto index = static_cast<std::size_t>(replica);
  const c10::Device device = context.device().torch_device;
  barrier_.arrive_and_wait(replica);  // all generators are there
  if (replica == 0) attempt(context, [&] { begin(device); });
  barrier_.arrive_and_wait(replica);
  attempt(context, [&] {
    if (has_failed_) return;
    if (replica > 0) forked_.wait(device);
    const CapturedContext captured(context, capture_);
    results_of_[index] = step(inputs_of(replica));
  });
  if (replica > 0) attempt(context, [&] { joined_[index].record(device); });
  barrier_.arrive_and_wait(replica);  // the streams get no more work
  if (replica == 0) {
    attempt(context, [&] { end(device); });
    if (has_failed_) capture_.give_up(base::str_cat("it cannot be captured: ", failure_));
  }
  barrier_.arrive_and_wait(replica);  // the streams are not captured any more
  check_state(!has_failed_, failure_);
}

void ReplicaCapture::begin(c10::Device device) {
  if (!capture_.begin(device, given_, random_))
    throw Error(ErrorCode::kUnimplemented, capture_.eager_reason());
  forked_.record(device);
}

void ReplicaCapture::end(c10::Device device) {
  if (has_failed_) return;
  for (const device::StreamFence& each : joined_) each.wait(device);
  capture_.end(joined(results_of_));
  for (TensorList& each : results_of_) each.clear();
}

void ReplicaCapture::attempt(const ReplicaContext& context, const std::function<void()>& work) {
  std::string reason;
  try {
    return work();
  } catch (const std::exception& error) {
    reason = base::without_stack_trace(error.what());
  } catch (...) {
    reason = "an exception that is not a std::exception";
  }
  {
    const std::lock_guard lock(mutex_);
    if (!has_failed_) failure_ = reason;
    has_failed_ = true;
  }
  context.release_others(reason);
}

std::span<const at::Tensor> ReplicaCapture::inputs_of(int replica) const {
  const std::size_t count = capture_.inputs().size() / results_of_.size();
  return std::span(capture_.inputs()).subspan(static_cast<std::size_t>(replica) * count, count);
}

}  // namespace brigade::distribute
