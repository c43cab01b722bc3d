#pragma once

#include <memory>
#include <ostream>

#include "brigade/train/callbacks/callback.h"

namespace brigade::train {

/// How much a fit tells.
enum class Verbose {
  kSilent,
  kEpochs,   ///< a line an epoch: time and figures
  kProgress  ///< and how far an epoch is, every few seconds
};

/// What `FitOptions::verbose` puts on stderr: "Epoch 1/5  469 steps  3.2 s  accuracy 0.81  loss
/// 0.52". `out` must outlive the callback. Keras: ProgbarLogger.
std::shared_ptr<Callback> make_progress_callback(std::ostream& out, Verbose verbose);

}  // namespace brigade::train
