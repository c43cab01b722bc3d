#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace brigade {

/// The kind of failure that an `Error` reports. Programs should decide (retry, restart, give up) by
/// the code alone; the message is for humans. The names are those of gRPC and absl::Status.
enum class ErrorCode {
  kInvalidArgument,     ///< The caller passed something that can never work: fix the call.
  kNotFound,            ///< A named thing (file, variable, device) does not exist.
  kAlreadyExists,       ///< A thing to be created already exists.
  kFailedPrecondition,  ///< Right call, wrong moment or state.
  kOutOfRange,          ///< A position or number lies outside what exists.
  kUnavailable,         ///< A peer or service is lost or not ready yet: trying again may help.
  kDeadlineExceeded,    ///< A wait ended before what it waited for.
  kCancelled,           ///< The work was cancelled by request.
  kAborted,             ///< The work was given up because a part of it failed elsewhere.
  kDataLoss,            ///< Stored data are corrupt or truncated.
  kResourceExhausted,   ///< Memory, disk space, cores or descriptors ran out.
  kPermissionDenied,    ///< The system refuses access.
  kUnimplemented,       ///< Not built into this program.
  kInternal,            ///< A bug in Brigade: please report it.
};

/// The code's name as written in messages and JSON, for example "INVALID_ARGUMENT".
std::string_view to_string(ErrorCode code);

/// The exception type of Brigade. The message names the thing, the actual value, the allowed
/// values, and what to do. It has one or two sentences without a trailing newline, and can be shown
/// to a user as it is.
///
/// Thread-safety: a value, like any exception.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// Throws `Error{kInvalidArgument, message}` unless `condition` holds. `message` is evaluated in
/// every case, so on hot paths use an `if` instead.
void check_argument(bool condition, std::string_view message);

/// Throws `Error{kInvalidArgument, message}`: `check_argument` for a message that is expensive to
/// make, or a condition that an `if` says better.
[[noreturn]] inline void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

/// Throws `Error{kFailedPrecondition, message}` unless `condition` holds.
void check_state(bool condition, std::string_view message);

}  // namespace brigade
