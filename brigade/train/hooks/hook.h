#pragma once

#include <exception>

#include "brigade/comm/worker_facts.h"
#include "brigade/train/session/session_context.h"
#include "brigade/train/session/step_values.h"

namespace brigade::train {

/// Something that happens around the steps of a training: saving, logging, stopping, looking for
/// NaN. A session calls its hooks in their order, on its own thread:
///
///   begin                      once, before anything is restored
///   after_create_session       when the state is ready: restored or initialized; again after each
///                              recovery
///   before_run, after_run      around each step; the global step is that before, and that after
///   on_error                   if a step or a hook threw and the session gives up
///   end                        once, always, also after an error
///
/// What a hook throws ends the session as an error of the step does. In `on_error` and `end` every
/// hook is called even if one before it threw; the first error of all is the one that comes out.
///
/// State that must outlive the process is given to the checkpoint as a part, in `begin`:
/// `context.state().add({.name = "hook/mine", ..., .missing = checkpoint::Missing::kSkip})`.
///
/// TensorFlow: SessionRunHook; `end` is not called there after an error.
class SessionRunHook {
 public:
  virtual ~SessionRunHook() = default;
  /// What every worker's hook at this position must have alike; a session of several workers
  /// compares it when it is made, and refuses to begin where one has something else. Default:
  /// nothing, so that workers may have hooks of their own.
  virtual comm::Facts facts() const { return {}; }
  virtual void begin(SessionContext&) {}
  virtual void after_create_session(SessionContext&) {}
  virtual void before_run(SessionContext&) {}
  virtual void after_run(SessionContext&, const StepValues&) {}
  virtual void on_error(SessionContext&, const std::exception_ptr&) {}
  /// `context.has_failed()` says whether the state is one to be kept.
  virtual void end(SessionContext&) {}
};

}  // namespace brigade::train
