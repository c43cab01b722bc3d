#pragma once

#include "brigade/base/error.h"

namespace brigade::device {

/// A logical CPU beyond the cores, or more threads on it than cores, was requested without
/// `DiscoveryOptions::allow_oversubscription` (kInvalidArgument). A separate type, so that a
/// program can name its own option for it.
class OversubscriptionError : public Error {
 public:
  using Error::Error;
};

}  // namespace brigade::device
