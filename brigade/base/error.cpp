#include "brigade/base/error.h"

#include <array>
#include <cstddef>

namespace brigade {

std::string_view to_string(ErrorCode code) {
  constexpr std::array<std::string_view, 14> kNames = {
      "INVALID_ARGUMENT", "NOT_FOUND",   "ALREADY_EXISTS",     "FAILED_PRECONDITION",
      "OUT_OF_RANGE",     "UNAVAILABLE", "DEADLINE_EXCEEDED",  "CANCELLED",
      "ABORTED",          "DATA_LOSS",   "RESOURCE_EXHAUSTED", "PERMISSION_DENIED",
      "UNIMPLEMENTED",    "INTERNAL"};
  static_assert(kNames.size() == static_cast<std::size_t>(ErrorCode::kInternal) + 1);
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : "UNKNOWN";
}

Error::Error(ErrorCode code, const std::string& message)
    : std::runtime_error(message), code_(code) {}
Error::Error(ErrorCode code, const char* message) : std::runtime_error(message), code_(code) {}
Error::Error(ErrorCode code, std::initializer_list<base::TextPiece> pieces)
    : Error(code, base::concatenate(pieces)) {}
Error::Error(const Error&) noexcept = default;
Error& Error::operator=(const Error&) noexcept = default;
Error::~Error() = default;

void throw_error(ErrorCode code, std::initializer_list<base::TextPiece> pieces) {
  throw Error(code, pieces);
}

void check_argument(bool condition, std::string_view message) {
  if (!condition) throw Error(ErrorCode::kInvalidArgument, std::string(message));
}

void check_state(bool condition, std::string_view message) {
  if (!condition) throw Error(ErrorCode::kFailedPrecondition, std::string(message));
}

}  // namespace brigade
