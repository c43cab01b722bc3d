#pragma once

#include "brigade/base/error.h"

namespace brigade::rpc {

/// What has become of the process that has a rank which another one claims.
enum class RankHolder {
  kPresent,  ///< it is a member
  kGone      ///< it was one, and left or was lost: the next generation has room for another
};

/// Thrown by `join`: kFailedPrecondition, since another process came first with this rank.
class RankTakenError : public Error {
 public:
  RankTakenError(RankHolder holder, const std::string& message)
      : Error(ErrorCode::kFailedPrecondition, message), holder_(holder) {}
  RankHolder holder() const noexcept { return holder_; }

 private:
  RankHolder holder_;
};

}  // namespace brigade::rpc
