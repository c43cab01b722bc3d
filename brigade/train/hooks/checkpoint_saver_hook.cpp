#include "brigade/train/hooks/checkpoint_saver_hook.h"

#include <exception>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/checkpoint/contents.h"
#include "brigade/concurrency/first_error.h"
#include "brigade/train/session/session_context.h"
#include "brigade/train/session/step_values.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {

std::shared_ptr<CheckpointSavingHook> CheckpointSaverHook::hook() const {
  return std::make_shared<CheckpointSavingHook>(*this);
}

CheckpointSavingHook::CheckpointSavingHook(CheckpointSaverHook options)
    : options_(std::move(options)) {
  check_argument(!options_.saver.directory.empty(),
                 "CheckpointSaverHook::saver needs a directory.");
  for (const auto& listener : options_.listeners)
    check_argument(listener != nullptr, "A listener of CheckpointSaverHook is null.");
}

void CheckpointSavingHook::begin(SessionContext& context) {
  saver_.emplace(context.state().strategy(), context.files(), options_.saver,
                 std::shared_ptr<const base::Clock>(std::shared_ptr<void>(), &context.clock()));
  timer_.emplace(options_.every, context.clock());
  if (options_.every.time)
    chiefs_timer_ =
        context.add_timer([this](std::int64_t step) { return timer_->is_due_by_time(step); });
  for (const auto& listener : options_.listeners) listener->begin(context);
}

bool CheckpointSavingHook::is_saved_already(const SessionContext& context) {
  const std::vector<io::Path> saved = saver_->checkpoints();
  return context.broadcast_from_chief(context.restored_from() && !saved.empty() &&
                                      saved.back() == *context.restored_from() &&
                                      context.restored_step() == context.global_step());
}

// All workers count the same steps; for times, only the chief's clock counts.
bool CheckpointSavingHook::is_due(const SessionContext& context) const {
  if (timer_->last_step() == context.global_step()) return false;  // an update was left out
  return must_see(context) || (chiefs_timer_ && context.is_due(*chiefs_timer_));
}

void CheckpointSavingHook::after_create_session(SessionContext& context) {
  if (!is_saved_already(context)) return save(context);
  timer_->reset();
  timer_->mark(context.global_step());
}

void CheckpointSavingHook::after_run(SessionContext& context, const StepValues&) {
  if (is_due(context) && !context.discards() && context.state().is_between_updates()) save(context);
}

bool CheckpointSavingHook::must_see(const SessionContext& context) const {
  const std::optional<std::int64_t> last = timer_->last_step();
  return options_.every.steps && last && context.global_step() >= *last + *options_.every.steps;
}

void CheckpointSavingHook::save(SessionContext& context) {
  if (!saver_->participates()) return;
  for (const auto& listener : options_.listeners) listener->before_save(context);
  context.spans().measure("save", "checkpoint", [&] {
    const checkpoint::Contents contents = context.state().contents();
    // Other workers may have made further steps since the contents were fetched.
    const std::int64_t step = contents.state.as_int64("global_step");
    saver_->save(step, contents);
    timer_->mark(step);
  });
  for (const auto& listener : options_.listeners) {
    if (listener->after_save(context) == AfterSave::kStop) context.request_stop();
  }
  context.agree_before_next_step();  // next to a save the call is cheap
}

void CheckpointSavingHook::save_last(SessionContext& context) {
  if (!saver_->participates()) return;
  if (context.has_failed() || context.at_stop() == AtStop::kDiscard) return;
  if (timer_->last_step() == context.global_step()) return;
  if (context.state().is_between_updates()) {
    // An error of an earlier write must not prevent this one, which supersedes it.
    try {
      saver_->wait();
    } catch (const std::exception& error) {
      base::log_warning("A checkpoint was not written: ", error.what());
    }
    return save(context);
  }
  base::log_warning("The training ends at step ", context.global_step(),
                    " between two micro-batches of one update; the checkpoint of step ",
                    timer_->last_step().value_or(0),
                    " stays the newest. Call Optimizer::flush at the end of the data.");
}

void CheckpointSavingHook::end(SessionContext& context) {
  if (!timer_) return;  // begin has failed
  concurrency::FirstError error;
  error.attempt([&] { save_last(context); });
  error.attempt([&] { saver_->close(); });
  if (!context.has_failed()) error.attempt([&] { context.broadcast_from_chief(true); });
  for (const auto& listener : options_.listeners) error.attempt([&] { listener->end(context); });
  error.rethrow();
}

void CheckpointSavingHook::wait() {
  if (saver_) saver_->checkpoints();
}

void CheckpointSavingHook::set_aside(const std::vector<io::Path>& broken) {
  if (saver_) saver_->set_aside(broken);
}

}  // namespace brigade::train
