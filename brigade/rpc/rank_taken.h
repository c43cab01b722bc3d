#pragma once

#include "brigade/base/error.h"

namespace brigade::rpc {

/// The state of the process that holds a rank when another process claims it.
enum class RankHolder {
  kPresent,  ///< it is a member
  kGone      ///< it left or was lost: the next generation can accept another process
};

/// Thrown by `join` with kFailedPrecondition if another process has joined with this rank.
class RankTakenError : public Error {
 public:
  RankTakenError(RankHolder holder, const std::string& message)
      : Error(ErrorCode::kFailedPrecondition, message), holder_(holder) {}
  RankHolder holder() const noexcept { return holder_; }

 private:
  RankHolder holder_;
};

}  // namespace brigade::rpc
