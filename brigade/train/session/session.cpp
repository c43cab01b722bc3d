#include "brigade/train/session/session.h"

#include <algorithm>
#include <ranges>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/distribute/strategy.h"
#include "brigade/distribute/worker_group.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/hooks/checkpoint_saver_hook.h"
#include "brigade/train/hooks/logging_hooks.h"

namespace brigade::train {

using base::str_cat;

namespace {

bool is_chief(const SessionOptions& options) {
  return options.role == SessionRole::kChief;
}

std::shared_ptr<TrainingState> state_of(distribute::Strategy& strategy) {
  auto state = std::make_shared<TrainingState>(strategy);
  state->add_created();
  return state;
}

SessionOptions validated(SessionOptions options, const distribute::Strategy& strategy) {
  if (!strategy.is_chief()) options.role = SessionRole::kWorker;
  check_argument(options.max_recoveries >= 0, "SessionOptions::max_recoveries is ",
                 options.max_recoveries, "; it must be 0 or more.");
  check_argument(options.ready_poll.count() > 0, "SessionOptions::ready_poll must be above 0.");
  for (const auto* hooks : {&options.hooks, &options.chief_only_hooks}) {
    for (const auto& hook : *hooks)
      check_argument(static_cast<bool>(hook), "A session's hook is null.");
  }
  return options;
}

std::unique_ptr<summary::SummaryWriter> make_summaries(const SessionOptions& options,
                                                       const SessionEnvironment& environment,
                                                       const base::Clock& system_clock) {
  const io::Path directory =
      options.summary_dir.empty() ? options.checkpoint_dir : options.summary_dir;
  const bool is_requested = !options.summary_dir.empty() || !options.save_summaries.is_never() ||
                            !options.log_step_count.is_never();
  if (!is_chief(options) || directory.empty() || !is_requested) return nullptr;
  const SessionEnvironment complete = completed(environment, system_clock);
  return std::make_unique<summary::SummaryWriter>(complete.files, directory, *complete.clock);
}

std::string text_of(const Every& every) {
  if (every.is_never()) return "never";
  return str_cat(every.steps ? str_cat(*every.steps, " steps") : "",
                 every.steps && every.time ? ", " : "",
                 every.time ? str_cat(std::int64_t{every.time->count()}, " ms") : "");
}

/// What decides which collectives a session makes, and when. Paths may differ between workers.
comm::Facts facts_of(const SessionOptions& options, const TrainingState& state) {
  comm::Facts facts = {
      {"checkpoint_dir", options.checkpoint_dir.empty() ? "none" : "given"},
      {"save_checkpoints", text_of(options.save_checkpoints)},
      {"resume", options.resume == Resume::kAuto ? "kAuto" : "kNever"},
      {"resume_from", options.resume_from ? options.resume_from->string() : "nothing"}};
  const auto add = [&](const comm::Facts& more) {
    facts.insert(facts.end(), more.begin(), more.end());
  };
  add(state.facts());
  for (const auto& hook : options.hooks) add(hook->facts());
  return facts;
}

}  // namespace

MonitoredTrainingSession::MonitoredTrainingSession(TrainingState& state, SessionOptions options,
                                                   SessionEnvironment environment)
    : MonitoredTrainingSession(std::shared_ptr<TrainingState>(std::shared_ptr<void>(), &state),
                               std::move(options), std::move(environment)) {}

MonitoredTrainingSession::MonitoredTrainingSession(distribute::Strategy& strategy,
                                                   SessionOptions options,
                                                   SessionEnvironment environment)
    : MonitoredTrainingSession(state_of(strategy), std::move(options), std::move(environment)) {}

MonitoredTrainingSession::MonitoredTrainingSession(std::shared_ptr<TrainingState> training_state,
                                                   SessionOptions options,
                                                   SessionEnvironment environment)
    : state_(std::move(training_state)),
      options_(validated(std::move(options), state_->strategy())),
      summaries_(make_summaries(options_, environment, system_clock_)),
      context_(*state_, std::move(environment), summaries_.get()),
      exceptions_at_start_(std::uncaught_exceptions()) {
  context_.cancel_ = options_.cancel;
  on_cancel_ = options_.cancel.on_cancel([this] { context_.request_stop(); });
  try {
    distribute::check_agreement(
        state_->strategy().workers(), facts_of(options_, *state_),
        {.what = "training sessions", .advice = "give every worker's session the same options."});
    make_hooks();
    runner_ = StepRunner({.max_retries = can_recover() ? options_.max_recoveries : 0,
                          .from = "the last checkpoint",
                          .recover = [this] { return recover(); }});
    start();
  } catch (...) {
    fail(std::current_exception());
    throw;
  }
}

MonitoredTrainingSession::~MonitoredTrainingSession() {
  if (is_closed_) return;
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    // The program's error may have occurred after reading a batch and before its step.
    fail(std::make_exception_ptr(
        Error(ErrorCode::kAborted, "The program left the session with an error.")));
    return;
  }
  try {
    close();
  } catch (const std::exception& error) {
    base::log_error("Closing a training session failed: ", error.what());
  }
}

void MonitoredTrainingSession::make_hooks() {
  const auto add_all = [&](const auto& hooks) {
    hooks_.insert(hooks_.end(), hooks.begin(), hooks.end());
  };
  if (is_chief(options_)) {
    add_all(options_.chief_only_hooks);
    if (!options_.log_step_count.is_never())
      hooks_.push_back(StepCounterHook{.every = options_.log_step_count});
    if (summaries_ && !options_.save_summaries.is_never()) {
      hooks_.push_back(SummarySaverHook{.every = options_.save_summaries,
                                        .summaries = options_.scaffold.summaries,
                                        .write_graph = true,
                                        .write_staleness = true});
    }
  }
  // All workers read the state that is saved; the chief writes it.
  const bool participates =
      is_chief(options_) || context_.state().strategy().has_worker_collectives();
  if (participates && !options_.checkpoint_dir.empty() && !options_.save_checkpoints.is_never()) {
    CheckpointSaverHook saving{.saver = options_.scaffold.saver,
                               .every = options_.save_checkpoints};
    saving.saver.directory = options_.checkpoint_dir;
    saver_ = saving.hook();
    hooks_.push_back(saver_);
  }
  add_all(options_.hooks);
}

void MonitoredTrainingSession::start() {
  for (const auto& hook : hooks_) {
    ++num_begun_hooks_;
    hook->begin(context_);
  }
  if (!is_chief(options_)) wait_until_ready();
  initialize();
  if (is_chief(options_)) check_ready();
  create_session();
}

void MonitoredTrainingSession::check_ready() {
  const auto& not_ready = options_.scaffold.not_ready;
  const auto reason = not_ready ? not_ready() : std::nullopt;
  if (reason) throw Error(ErrorCode::kFailedPrecondition, "Not ready to train: ", *reason);
}

void MonitoredTrainingSession::wait_until_ready() {
  const auto& not_ready = options_.scaffold.not_ready;
  if (!not_ready) return;
  const auto deadline = context_.clock().now() + options_.max_wait;
  while (const auto reason = not_ready()) {
    options_.cancel.throw_if_cancelled("waiting until the training is ready");
    if (context_.clock().now() >= deadline) {
      throw Error(ErrorCode::kDeadlineExceeded, "The training was not ready after ",
                  options_.max_wait.count(), " ms: ", *reason);
    }
    context_.wait(options_.ready_poll);
  }
}

/// Whether the chief initializes and restores the state for all workers, which share no
/// collectives.
bool MonitoredTrainingSession::is_initialized_by_chief() const {
  const distribute::Strategy& strategy = context_.state().strategy();
  return !strategy.is_chief() && !strategy.has_worker_collectives();
}

/// The number of this worker's earlier runs is not known. Random numbers of a run that no worker
/// has made yet are new in any case.
void MonitoredTrainingSession::follow_chief() {
  context_.state().store();
  distribute::Strategy& strategy = context_.state().strategy();
  strategy.set_step(std::max(strategy.step(), static_cast<std::uint64_t>(context_.global_step())));
}

void MonitoredTrainingSession::initialize() {
  if (is_initialized_by_chief()) return follow_chief();
  bool is_restored = true;
  if (options_.resume_from) {
    restore(open_checkpoint(*options_.resume_from));
  } else {
    is_restored = options_.resume == Resume::kAuto && restore_latest();
  }
  if (is_restored) return;
  if (options_.scaffold.init) options_.scaffold.init(context_.state());
  context_.state().store();
}

checkpoint::Checkpoint MonitoredTrainingSession::open_checkpoint(const io::Path& path) {
  const auto& files = context_.files();
  if (files->exists(path / checkpoint::kManifestName)) {
    checkpoint::Checkpoint checkpoint = checkpoint::Checkpoint::open(files, path);
    checkpoint.verify();
    return checkpoint;
  }
  if (auto latest = find_latest(path)) return std::move(*latest);
  throw Error(ErrorCode::kNotFound, "There is no complete checkpoint at ", path.string(),
              " to resume from.");
}

std::optional<checkpoint::Checkpoint> MonitoredTrainingSession::find_latest(const io::Path& path) {
  const distribute::Strategy& strategy = context_.state().strategy();
  std::optional<checkpoint::Checkpoint> own;
  if (strategy.is_chief()) own = find_own_latest(path);
  const std::string chosen =
      strategy.broadcast_from_chief(own ? own->path().string() : std::string());
  if (own || chosen.empty()) return own;
  if (context_.files()->exists(io::Path(chosen) / checkpoint::kManifestName))
    return checkpoint::Checkpoint::open(context_.files(), chosen);
  throw Error(ErrorCode::kNotFound, "The chief resumes from the checkpoint ", chosen,
              ", which this worker cannot see: put the checkpoint directory where all workers can "
              "read it.");
}

std::optional<checkpoint::Checkpoint> MonitoredTrainingSession::find_own_latest(
    const io::Path& path) {
  checkpoint::LatestComplete found = checkpoint::find_latest_complete(context_.files(), path);
  if (!found.checkpoint && !found.broken.empty()) {
    // Starting over would look like success, and would in the end delete checkpoints that can still
    // be repaired.
    throw Error(ErrorCode::kDataLoss, "None of the checkpoints in ", path.string(),
                " is complete (", found.broken.back().reason,
                "): restore complete ones, move them away, or start over with Resume::kNever or in "
                "another directory.");
  }
  std::vector<io::Path> paths;
  for (checkpoint::BrokenCheckpoint& broken : found.broken) {
    base::log_warning("Skipped the broken checkpoint ", broken.path.string(), ": ", broken.reason);
    paths.push_back(broken.path);
    passed_over_.push_back(std::move(broken));
  }
  if (saver_ && path == options_.checkpoint_dir) saver_->set_aside(paths);
  return std::move(found.checkpoint);
}

bool MonitoredTrainingSession::restore_latest() {
  if (options_.checkpoint_dir.empty()) return false;
  if (saver_) saver_->wait();
  const auto latest = find_latest(options_.checkpoint_dir);
  if (latest) restore(*latest);
  return latest.has_value();
}

void MonitoredTrainingSession::restore(const checkpoint::Checkpoint& checkpoint) {
  TrainingRestoreReport report = context_.state().restore(checkpoint, options_.restore);
  base::log_info("Training resumes from step ", report.step, " (", checkpoint.path().string(), ")");
  context_.restored_from_ = checkpoint.path();
  context_.restored_step_ = report.step;
  if (context_.recoveries_ == 0) restored_ = std::move(report);
}

void MonitoredTrainingSession::create_session() {
  if (options_.scaffold.local_init) options_.scaffold.local_init(context_.state());
  if (summaries_) summaries_->session_start(context_.global_step() + 1);
  for_each_hook([&](const HookPtr& hook) { hook->after_create_session(context_); });
  context_.state().strategy().start_job();  // other workers wait for it, even if no step follows
}

// Only if the checkpoints there are of this run, and no other worker has to be restored: the other
// workers do not know of the error, or caused it. A launcher restarts all of them.
bool MonitoredTrainingSession::can_recover() const {
  const bool started_elsewhere = options_.resume == Resume::kNever || options_.resume_from;
  const distribute::Strategy& strategy = context_.state().strategy();
  const bool is_alone = strategy.num_workers() == 1 && !strategy.global_step();
  return !options_.checkpoint_dir.empty() && is_alone && (saver_ || !started_elsewhere);
}

bool MonitoredTrainingSession::recover() {
  furthest_step_ = std::max(furthest_step_, context_.global_step());
  ++context_.recoveries_;
  if (!restore_latest()) return false;
  create_session();
  return true;
}

std::optional<StepValues> MonitoredTrainingSession::run(const StepFunction& step) {
  return run_steps(step, [](std::int64_t) { return false; });
}

std::optional<StepValues> MonitoredTrainingSession::run_steps(
    const StepFunction& step, const std::function<bool(std::int64_t made)>& more) {
  check_state(!should_stop(),
              "run was called after the session should stop: check should_stop first.");
  try {
    return runner_.run([&] { return try_run(step, more); });
  } catch (...) {
    fail(std::current_exception());
    throw;
  }
}

std::optional<StepValues> MonitoredTrainingSession::try_run(
    const StepFunction& step, const std::function<bool(std::int64_t made)>& more) {
  TrainingState& state = context_.state();
  context_.agree_on_stop();
  context_.forget_carried();
  if (should_stop()) return std::nullopt;
  if (!has_made_steps_) state.check_complete();
  context_.begin_step();
  state.apply_schedules();
  spans().measure("before_run", "hook",
                  [&] { for_each_hook([&](const HookPtr& hook) { hook->before_run(context_); }); });
  if (should_stop()) return std::nullopt;
  const std::optional<StepValues> values = make_steps(step, more);
  if (!values && !has_made_steps_)
    base::log_warning(
        "The data ended before the session's first step, so nothing was trained: is the dataset "
        "empty, or had the training that was restored come to its end?");
  if (!values) return std::nullopt;
  has_made_steps_ = true;
  spans().measure("after_run", "hook", [&] {
    for_each_hook([&](const HookPtr& hook) {
      if (hook.get() != saver_.get()) hook->after_run(context_, *values);
    });
    // Last, so that it saves the other hooks' state after this step, and nothing if one of them
    // threw.
    if (saver_) saver_->after_run(context_, *values);
  });
  if (context_.global_step() > furthest_step_) runner_.made_progress();
  return values;
}

/// With collectives, hooks that the other workers do not have.
std::size_t MonitoredTrainingSession::hooks_of_chief_alone() const {
  const bool are_together = context_.state().strategy().has_worker_collectives();
  return are_together && is_chief(options_) ? options_.chief_only_hooks.size() : 0;
}

template <class Call>
void MonitoredTrainingSession::for_each_hook(const Call& call) {
  const std::size_t alone = hooks_of_chief_alone();
  for (std::size_t i = 0; i < hooks_.size(); ++i) {
    context_.is_in_chief_only_hook_ = i < alone;
    call(hooks_[i]);
  }
  context_.is_in_chief_only_hook_ = false;
}

/// The values of the last step; nothing if the data has ended before the first.
std::optional<StepValues> MonitoredTrainingSession::make_steps(
    const StepFunction& step, const std::function<bool(std::int64_t made)>& more) {
  // All workers end a round at the same step: hooks of the chief alone cannot.
  const auto must_be_seen = [&] {
    return std::ranges::any_of(hooks_ | std::views::drop(hooks_of_chief_alone()),
                               [this](const auto& hook) { return hook->must_see(context_); });
  };
  std::optional<StepValues> last;
  std::int64_t made = 0;
  do {
    if (made > 0) {
      context_.begin_step();
      context_.state().apply_schedules();
    }
    std::optional<StepValues> values = spans().measure("step", "step", step);
    if (!values) {
      context_.request_stop(AtStop::kSave, RequestedBy::kEveryWorker);
      break;
    }
    last = std::move(values);
    context_.state().advance();
    ++made;
  } while (!should_stop() && !must_be_seen() && more(made));
  return last;
}

void MonitoredTrainingSession::fail(const std::exception_ptr& error) {
  is_closed_ = true;
  context_.forget_carried();
  context_.request_stop();
  context_.error_ = error;
  const auto attempt = [](const auto& call) {
    try {
      call();
    } catch (...) {
      base::log_error("While a training ended with an error: ", text_of(std::current_exception()));
    }
  };
  for (std::size_t i = 0; i < num_begun_hooks_; ++i)
    attempt([&] { hooks_[i]->on_error(context_, error); });
  for (std::size_t i = 0; i < num_begun_hooks_; ++i) attempt([&] { hooks_[i]->end(context_); });
  if (summaries_) attempt([&] { summaries_->close(); });
}

void MonitoredTrainingSession::close() {
  if (is_closed_) return;
  is_closed_ = true;
  context_.use_known_requests();
  context_.forget_carried();
  context_.request_stop();
  std::exception_ptr first;
  const auto attempt = [&](const auto& call) {
    try {
      call();
    } catch (...) {
      if (first) base::log_error(text_of(std::current_exception()));
      if (!first) first = std::current_exception();
    }
  };
  for (const auto& hook : hooks_) attempt([&] { hook->end(context_); });
  if (summaries_) attempt([&] { summaries_->close(); });
  if (first) std::rethrow_exception(first);
}

}  // namespace brigade::train
