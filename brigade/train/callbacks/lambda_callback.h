#pragma once

#include <functional>
#include <memory>

#include "brigade/train/callbacks/callback.h"

namespace brigade::train {

/// A callback made of functions, all of which are optional. Keras: LambdaCallback.
///
///   .callbacks = {LambdaCallback{.on_epoch_end = [](FitContext& fit) { plot(fit.logs()); }}}
struct LambdaCallback {
  using Function = std::function<void(FitContext&)>;
  Function on_epoch_begin = {};
  Function on_epoch_end = {};
  Function on_train_begin = {};
  Function on_train_end = {};
  Function on_train_batch_begin = {};
  Function on_train_batch_end = {};
  Function on_test_begin = {};
  Function on_test_end = {};

  std::shared_ptr<Callback> callback() const;
};

}  // namespace brigade::train
