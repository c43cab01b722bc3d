#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

#include "brigade/base/strings.h"
#include "brigade/base/text_piece.h"

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
  Error(ErrorCode code, const std::string& message);
  Error(ErrorCode code, const char* message);
  /// The message is all pieces, one after the other, as `base::str_cat` writes them; so it is with
  /// the functions below.
  template <class First, class Second, class... More>
  Error(ErrorCode code, const First& first, const Second& second, const More&... more)
      : Error(code, {base::TextPiece(first), base::TextPiece(second), base::TextPiece(more)...}) {}
  Error(ErrorCode code, std::initializer_list<base::TextPiece> pieces);
  Error(const Error&) noexcept;
  Error& operator=(const Error&) noexcept;
  ~Error() override;

  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// Throws `Error{code, message}`, where the pieces are the message. The functions below call it, so
/// that a check costs its caller no more code than a call.
[[noreturn]] void throw_error(ErrorCode code, std::initializer_list<base::TextPiece> pieces);

/// Throws `Error{kInvalidArgument, message}`: `check_argument` for a message whose pieces are
/// expensive to make, or a condition that an `if` says better.
template <class... Pieces>
[[noreturn]] void refuse(const Pieces&... pieces) {
  throw_error(ErrorCode::kInvalidArgument, {base::TextPiece(pieces)...});
}

/// Throws `Error{kInvalidArgument, message}` unless `condition` holds. The message is written only
/// then; its pieces are evaluated in every case.
void check_argument(bool condition, std::string_view message);
template <class First, class Second, class... More>
void check_argument(bool condition, const First& first, const Second& second, const More&... more) {
  if (!condition) refuse(first, second, more...);
}

/// As `check_argument`, but throws `Error{kFailedPrecondition, message}`.
void check_state(bool condition, std::string_view message);
template <class First, class Second, class... More>
void check_state(bool condition, const First& first, const Second& second, const More&... more) {
  if (!condition) {
    throw_error(ErrorCode::kFailedPrecondition,
                {base::TextPiece(first), base::TextPiece(second), base::TextPiece(more)...});
  }
}

}  // namespace brigade
