#pragma once

#include <memory>

#include "brigade/train/callbacks/callback.h"

namespace brigade::train {

/// Stops the training at the first batch whose loss is NaN or infinite. Reads the loss of every
/// batch, which waits for the devices. Keras: TerminateOnNaN.
struct TerminateOnNaN {
  std::shared_ptr<Callback> callback() const;
};

}  // namespace brigade::train
