#pragma once

#include <concepts>
#include <memory>
#include <utility>
#include <vector>

#include "brigade/train/model/fit_context.h"

namespace brigade::train {

struct SessionOptions;

/// Something that is called on the way of `Model::fit`: to save, log, stop, change the rate. Each
/// function may do nothing. Errors end the fit. Keras: keras.callbacks.Callback.
///
/// Reading figures waits for the devices, so batches have none unless a callback asks
/// (`step_values`).
///
/// Thread-safety: called on the thread of `fit`, one at a time, in the order given.
class Callback {
 public:
  virtual ~Callback() = default;
  virtual void on_train_begin(FitContext&) {}
  virtual void on_train_end(FitContext&) {}
  virtual void on_epoch_begin(FitContext&) {}
  virtual void on_epoch_end(FitContext&) {}
  virtual void on_train_batch_begin(FitContext&) {}
  virtual void on_train_batch_end(FitContext&) {}
  virtual void on_test_begin(FitContext&) {}
  virtual void on_test_end(FitContext&) {}
  /// Before the session that runs the steps is made, behind `on_train_begin`: adds hooks, says
  /// where to go on from.
  virtual void prepare_session(SessionOptions&) {}
};

/// A callback among others: made from a pointer to one, or from the options of one, such as
/// `EarlyStopping{.patience = 3}`, whose `callback()` makes it.
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

}  // namespace brigade::train
