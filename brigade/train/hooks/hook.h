#pragma once

#include <concepts>
#include <exception>
#include <memory>
#include <utility>

#include "brigade/comm/small_collectives.h"

namespace brigade::train {

class SessionContext;
class StepValues;

/// Called around the steps of a training: for saving, logging, stopping, checking for NaN. A
/// session calls its hooks in order, on its own thread:
///
///   begin                      once, before anything is restored
///   after_create_session       when the state is ready: restored or initialized; again after each
///                              recovery
///   before_run, after_run      around each step, or around several
///                              (`FitOptions::steps_per_execution`); the global step is that
///                              before, and that after
///   on_error                   if a step or a hook threw and the session gives up
///   end                        once, always, also after an error
///
/// An error of a hook ends the session like an error of the step. `on_error` and `end` of every
/// hook are called even if an earlier hook threw; the first error is rethrown.
///
/// A hook adds state that must be in checkpoints in `begin`: `context.state().add({.name =
/// "hook/mine", ..., .missing = checkpoint::Missing::kSkip})`.
///
/// A hook of one worker stops all with `SessionContext::request_stop`; hooks that all workers have,
/// and that decide alike, with RequestedBy::kEveryWorker.
///
/// TensorFlow: SessionRunHook; `end` is not called there after an error.
///
/// Thread-safety: the session calls every member on its own thread, outside of replicas.
class SessionRunHook {
 public:
  virtual ~SessionRunHook() = default;
  /// What must be equal in the hooks of all workers. With several workers, the constructor of a
  /// session compares it, and throws if a worker differs. Default: nothing, so that workers may
  /// have different hooks.
  virtual comm::Facts facts() const { return {}; }
  virtual void begin(SessionContext&) {}
  virtual void after_create_session(SessionContext&) {}
  virtual void before_run(SessionContext&) {}
  virtual void after_run(SessionContext&, const StepValues&) {}
  /// Asked after each of several steps that are made between `before_run` and `after_run`: whether
  /// `after_run` must be called for this step. The answer may depend on steps alone, so that it is
  /// equal in all workers; where workers have collectives, `SessionOptions::chief_only_hooks` are
  /// not asked. Default: no.
  virtual bool must_see(const SessionContext&) const { return false; }
  virtual void on_error(SessionContext&, const std::exception_ptr&) {}
  /// If `context.has_failed()`, the state must not be saved.
  virtual void end(SessionContext&) {}
};

/// Holds a hook: converts from a pointer to a hook, or from options such as
/// `StopAtStepHook{.last_step = 10'000}`, whose `hook()` creates it.
///
/// Thread-safety: a pointer.
class HookPtr {
 public:
  template <std::derived_from<SessionRunHook> Kind>
  HookPtr(std::shared_ptr<Kind> hook) : hook_(std::move(hook)) {}
  template <class Options>
  requires requires(const Options& options) {
    { options.hook() } -> std::convertible_to<std::shared_ptr<SessionRunHook>>;
  }
  HookPtr(const Options& options) : hook_(options.hook()) {}

  SessionRunHook* get() const { return hook_.get(); }
  SessionRunHook* operator->() const { return hook_.get(); }
  explicit operator bool() const { return hook_ != nullptr; }

 private:
  std::shared_ptr<SessionRunHook> hook_;
};

}  // namespace brigade::train
