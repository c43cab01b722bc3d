#pragma once

#include "brigade/base/error.h"

namespace brigade::device {

/// More logical CPUs, or threads on them, were asked for than there are cores, and
/// `Oversubscription::kAllow` was not given (kInvalidArgument). A type, so that a program with an
/// option for it can say which.
class OversubscriptionError : public Error {
 public:
  using Error::Error;
};

}  // namespace brigade::device
