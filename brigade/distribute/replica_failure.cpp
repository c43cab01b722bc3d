#include "brigade/distribute/replica_failure.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <new>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/step_progress.h"
#include "brigade/distribute/gradient_audit.h"
#include "brigade/distribute/strategy.h"

namespace brigade::distribute {

namespace {

struct Description {
  ErrorCode code;
  std::string text;
  bool foreign;  // not an Error of this library: kept nested, so that its type is not lost
  bool is_global = false;  // concerns all workers: rethrown unchanged
};

Description describe(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const comm::StepAbandoned& abandoned) {
    return {abandoned.code(), abandoned.what(), false, true};
  } catch (const comm::StepMismatch& mismatch) {
    return {mismatch.code(), mismatch.what(), false, true};
  } catch (const GradientMismatch& mismatch) {
    return {mismatch.code(), mismatch.what(), false, true};
  } catch (const Error& ours) {
    return {ours.code(), ours.what(), false};
  } catch (const c10::Error& torchs) {
    return {ErrorCode::kAborted, torchs.what_without_backtrace(), true};
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kResourceExhausted, "out of memory", true};
  } catch (const std::exception& other) {
    return {ErrorCode::kAborted, other.what(), true};
  } catch (...) {
    return {ErrorCode::kAborted, "an exception that is not a std::exception", true};
  }
}

/// Adds the number of examples: batch norm, for example, fails on one example without naming it.
std::string examples_text(const ExampleCounts& examples, std::size_t replica) {
  const std::int64_t held = examples.local[replica];
  const std::int64_t most = *std::max_element(examples.local.begin(), examples.local.end());
  std::string text =
      base::str_cat(" (The replica held ", held, " of the step's ", examples.global, " examples");
  if (held < most || held <= 1) {
    text +=
        "; if that is too few, drop the last partial batch of the data with batch(size, "
        "{.remainder = Remainder::kDrop}), and use a size that gives every replica enough";
  }
  return text + ".)";
}

}  // namespace

std::string ReplicaFailure::record(int replica, std::exception_ptr error) {
  const Description what = describe(error);
  const std::string text = base::str_cat("replica ", replica, " failed: ", what.text);
  const std::lock_guard lock(mutex_);
  const bool was_released =
      error_ && describe(error_).code == ErrorCode::kAborted && !describe(error_).foreign;
  if (!error_ || (what.is_global && was_released)) {
    error_ = std::move(error);
    replica_ = replica;
  }
  return text;
}

std::string ReplicaFailure::text() const {
  return error_ ? base::str_cat("replica ", replica_, " failed: ", describe(error_).text) : "";
}

void ReplicaFailure::rethrow(const Strategy& strategy,
                             const std::optional<ExampleCounts>& examples) const {
  if (!error_) return;
  const Description what = describe(error_);
  if (what.is_global) std::rethrow_exception(error_);
  const std::string where =
      strategy.num_local_replicas() == 1
          ? std::string()
          : base::str_cat("Replica ", strategy.replica_range().first + replica_, " (",
                          strategy.devices()[replica_].name.to_string(), "): ");
  if (!what.foreign) throw Error(what.code, where + what.text);
  const std::string suffix =
      examples ? examples_text(*examples, static_cast<std::size_t>(replica_)) : std::string();
  try {
    std::rethrow_exception(error_);
  } catch (...) {
    std::throw_with_nested(Error(what.code, where + what.text + suffix));
  }
}

}  // namespace brigade::distribute
