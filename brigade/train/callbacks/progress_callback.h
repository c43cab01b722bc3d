#pragma once

#include <memory>
#include <ostream>

#include "brigade/train/callbacks/callback.h"

namespace brigade::train {

/// How much a fit prints.
enum class Verbose {
  kSilent,
  kEpochs,   ///< one line per epoch: time and metrics
  kProgress  ///< also the progress within an epoch, every few seconds
};

/// Prints the lines of `FitOptions::verbose` to `out`: "Epoch 1/5  469 steps  3.2 s  accuracy 0.81
/// loss 0.52". `out` must outlive the callback. Keras: ProgbarLogger.
std::shared_ptr<Callback> make_progress_callback(std::ostream& out, Verbose verbose);

}  // namespace brigade::train
