#pragma once

#include "brigade/base/error.h"

namespace brigade::device {

/// More logical CPUs, or threads on them, were requested than there are cores, without
/// `Oversubscription::kAllow` (kInvalidArgument). A separate type, so that a program can name its
/// own option for it.
class OversubscriptionError : public Error {
 public:
  using Error::Error;
};

}  // namespace brigade::device
