#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <utility>

#include "brigade/train/model/fit_context.h"

namespace brigade::train {

struct SessionOptions;

/// Called by `Model::fit`: to save, log, stop, change the learning rate. By default the functions
/// do nothing. Errors end the fit. Keras: keras.callbacks.Callback.
///
/// Reading metrics waits for the devices, so there are none after batches, except for the losses
/// (`FitContext::step_values`). With `FitOptions::steps_per_execution` the functions of batches are
/// called before and after that many batches.
///
/// Thread-safety: called on the thread of `fit`, one at a time, in the order given.
class Callback {
 public:
  virtual ~Callback() = default;
  /// Around the whole training.
  virtual void on_train_begin(FitContext&) {}
  virtual void on_train_end(FitContext&) {}
  /// Around each epoch; at its end with the metrics of training and validation
  /// (`FitContext::logs`).
  virtual void on_epoch_begin(FitContext&) {}
  virtual void on_epoch_end(FitContext&) {}
  /// Around each batch of training.
  virtual void on_train_batch_begin(FitContext&) {}
  virtual void on_train_batch_end(FitContext&) {}
  /// Around each validation.
  virtual void on_test_begin(FitContext&) {}
  virtual void on_test_end(FitContext&) {}
  /// Called after `on_train_begin`, before the session that runs the steps is created: may add
  /// hooks, or set the checkpoint to resume from.
  virtual void prepare_session(SessionOptions&) {}
};

/// Holds a callback: converts from a pointer to a callback, or from options such as
/// `EarlyStopping{.patience = 3}`, whose `callback()` creates it.
///
/// Thread-safety: a pointer.
class CallbackPtr {
 public:
  template <std::derived_from<Callback> Kind>
  CallbackPtr(std::shared_ptr<Kind> callback) : callback_(std::move(callback)) {}
  template <class Options>
  requires requires(const Options& options) {
    { options.callback() } -> std::convertible_to<std::shared_ptr<Callback>>;
  }
  CallbackPtr(const Options& options) : callback_(options.callback()) {}

  Callback* operator->() const { return callback_.get(); }
  explicit operator bool() const { return callback_ != nullptr; }

 private:
  std::shared_ptr<Callback> callback_;
};

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
