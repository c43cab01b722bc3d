#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace brigade {

/// What kind of failure an `Error` reports. Supervision (retry, restart, give up) acts on the code
/// alone; people read the message. The names are those of gRPC and absl::Status, which every part
/// of a distributed job already speaks.
enum class ErrorCode {
  kInvalidArgument,     ///< The caller passed something that can never work: mend the call.
  kNotFound,            ///< A named thing (file, variable, device) does not exist.
  kAlreadyExists,       ///< A thing to be created is there already.
  kFailedPrecondition,  ///< Right call, wrong moment or state.
  kOutOfRange,          ///< A position or number lies outside what exists.
  kUnavailable,         ///< A peer or service is gone or not there yet: trying again may help.
  kDeadlineExceeded,    ///< A wait ended before what it waited for.
  kCancelled,           ///< Somebody asked for the work to stop.
  kAborted,             ///< The work was given up because a part of it failed elsewhere.
  kDataLoss,            ///< Stored bytes are broken or cut short.
  kResourceExhausted,   ///< Memory, disk space, cores or descriptors ran out.
  kPermissionDenied,    ///< The system refuses access.
  kUnimplemented,       ///< Not built into this program.
  kInternal,            ///< A law of Brigade itself was broken: please report it.
};

/// The code's name as written in messages and JSON, for example "INVALID_ARGUMENT".
std::string_view to_string(ErrorCode code);

/// The one exception type of Brigade. The message names the thing, the value got, the values
/// allowed, and what to do; it is one sentence or two, without a trailing newline, fit to be shown
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
/// every case: on hot paths write the `if` out.
void check_argument(bool condition, std::string_view message);

/// Throws `Error{kFailedPrecondition, message}` unless `condition` holds.
void check_state(bool condition, std::string_view message);

}  // namespace brigade
