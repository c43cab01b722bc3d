#include "brigade/launch/job_coordinator.h"

#include <signal.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::launch {

namespace {

constexpr std::chrono::seconds kReportPatience{3};
// The shim of a killed process may still clean up when others that fail because of it have ended.
constexpr std::chrono::milliseconds kSettling{100};

}  // namespace

void FirstFailureFinder::record_lost(int rank) {
  // Members that are lost after the first failure cannot be its cause.
  if (!has_failed()) lost_ranks_.push_back(rank);
}

void FirstFailureFinder::record_end(int rank, const ExitStatus& status, Time now) {
  ended_.insert(rank);
  if (status.is_success()) return;
  failures_.emplace(rank, End{status, now});
  if (!first_seen_) first_seen_ = now;
}

FirstFailureFinder::Time FirstFailureFinder::decided_at() const {
  const bool awaits_lost =
      std::ranges::any_of(lost_ranks_, [this](int rank) { return !ended_.contains(rank); });
  if (awaits_lost) return *first_seen_ + kReportPatience;
  return *first_seen_ + kSettling;
}

std::optional<int> FirstFailureFinder::rank(Time now) const {
  if (failures_.empty()) return std::nullopt;
  for (const int lost : lost_ranks_) {
    if (failures_.contains(lost)) return lost;
    if (!ended_.contains(lost) && now < decided_at()) return std::nullopt;
  }
  // Among failures seen together, a killed process did not fail because of another.
  const Time settled = *first_seen_ + kSettling;
  std::optional<int> found;
  for (const auto& [rank, end] : failures_) {
    const bool is_killed = end.status.signal.has_value();
    if (end.when != *first_seen_ && !(is_killed && end.when < settled)) continue;
    if (!found || (is_killed && !failures_.at(*found).status.signal)) found = rank;
  }
  if (now < settled && !failures_.at(*found).status.signal) return std::nullopt;
  return found;
}

JobCoordinator::JobCoordinator(const JobOptions& options, std::vector<int> processes, Order order)
    : options_(options), order_(std::move(order)), processes_(std::move(processes)) {}

void JobCoordinator::begin(int generation, const JobSummary& so_far) {
  generation_ = generation - 1;
  restarts_ = so_far.restarts;
  membership_changes_ = so_far.membership_changes;
  start(so_far.note);
}

void JobCoordinator::handle(const Message& message, Time now) {
  std::visit([&](const auto& each) { on(each, now); }, message);
}

void JobCoordinator::on(const RankEnded& ended, Time now) {
  if (ended.generation != generation_) return;
  ended_[ended.rank] = ended.status;
  if (course_ && stop_ == Stop::kNo) return on_task_ended(ended, now);
  if (course_) course_->record_end(ended.rank, ended.status.is_success(), now);
  if (stop_ == Stop::kNo) return first_failure_.record_end(ended.rank, ended.status, now);
  if (stop_ == Stop::kFailure || failure_ || ended.is_orderly || follows_from_stop(ended)) return;
  name(ended.rank, ended.status, to_string(ended.status));
}

/// Whether a process that failed while the job was being stopped has, most likely, seen the end of
/// another one, which was asked to end before it: their launchers get the order one after another.
bool JobCoordinator::follows_from_stop(const RankEnded& ended) const {
  if (ended.was_asked || options_.roles || options_.coupling == Coupling::kIndependent)
    return false;
  return num_processes() > 1 && exit_kind_of(ended.status) == ExitKind::kFailed &&
         !ended.status.signal;
}

void JobCoordinator::on_task_ended(const RankEnded& ended, Time now) {
  if (ended.status.is_success()) return release(ended, EndKind::kDone, now);
  if (course_->has_training_ended() && is_worker(*options_.roles, ended.rank))
    return release(ended, EndKind::kTooLate, now);
  if (course_->has_dismissed_servers() && ended.is_orderly)
    return release(ended, EndKind::kDone, now);
  if (may_restart(ended)) return restart(ended);
  if (course_->is_chief_done()) {
    if (independent_code_ == 0) independent_code_ = ended.status.as_code();
    return release(ended, EndKind::kFailed, now);
  }
  course_->record_end(ended.rank, /*is_success=*/false, now);
  first_failure_.record_end(ended.rank, ended.status, now);
}

bool JobCoordinator::may_restart(const RankEnded& ended) const {
  const ExitKind kind = exit_kind_of(ended.status);
  if (kind == ExitKind::kUsage || kind == ExitKind::kInterrupted) return false;
  if (!course_->may_restart(ended.rank)) return false;
  if (kind == ExitKind::kRestartMe) return membership_changes_ < options_.max_membership_changes;
  return restarts_ < options_.max_restarts;
}

void JobCoordinator::restart(const RankEnded& ended) {
  const bool is_failure = exit_kind_of(ended.status) != ExitKind::kRestartMe;
  ++(is_failure ? restarts_ : membership_changes_);
  ended_.erase(ended.rank);
  order_(RestartOrder{.generation = generation_,
                      .rank = ended.rank,
                      .is_failure = is_failure,
                      .restarts = restarts_,
                      .membership_changes = membership_changes_});
}

void JobCoordinator::release(const RankEnded& ended, EndKind kind, Time now) {
  course_->record_end(ended.rank, ended.status.is_success(), now);
  order_(ReleaseOrder{.generation = generation_, .rank = ended.rank, .kind = kind});
}

void JobCoordinator::dismiss(Time now) {
  if (!course_) return;
  const Roles& roles = *options_.roles;
  give(course_->order_for_workers(now), [&](int rank) { return is_worker(roles, rank); });
  give(course_->order_for_servers(now), [&](int rank) { return is_server(roles, rank); });
}

void JobCoordinator::give(RoleCourse::Order order, const std::function<bool(int)>& is_meant) {
  if (order == RoleCourse::Order::kNone) return;
  DismissOrder dismissal{.generation = generation_,
                         .signal = order == RoleCourse::Order::kKill ? SIGKILL : stop_signal_};
  for (int rank = 0; rank < num_processes(); ++rank) {
    if (is_meant(rank) && !ended_.contains(rank)) dismissal.ranks.push_back(rank);
  }
  if (!dismissal.ranks.empty()) order_(dismissal);
}

void JobCoordinator::on(const RankLost& lost, Time) {
  const bool is_running = !ended_.contains(lost.rank);
  if (lost.generation != generation_ || stop_ != Stop::kNo || !is_running) return;
  name(lost.rank, {.signal = SIGKILL}, lost.reason);
  stop(Stop::kFailure, SIGTERM);
}

void JobCoordinator::record_lost(int generation, int rank) {
  if (generation != generation_) return;
  if (stop_ == Stop::kNo && !ended_.contains(rank)) first_failure_.record_lost(rank);
}

void JobCoordinator::on(const SignalReceived& came, Time) {
  if (came.signal == SIGUSR1) return grow();
  const bool is_first = signaled_.insert(came.host).second;
  if (stop_ == Stop::kSignal) {
    // A user may signal all hosts to stop a job; a second signal to the same host kills.
    if (!is_first) order_(StopOrder{generation_, SIGKILL});
    return;
  }
  received_ = came.signal;
  stop(Stop::kSignal, came.signal == SIGHUP ? SIGTERM : came.signal);
}

/// Adds a process if the job allows it: all processes save, end and are restarted.
void JobCoordinator::grow() {
  if (options_.elastic && num_processes() < options_.elastic->max && stop_ == Stop::kNo) {
    base::log_info("Adding one process: all processes save and are restarted.");
    return stop(Stop::kResize, SIGTERM);
  }
  base::log_warning("SIGUSR1 asks for one more process, but this job cannot grow now.");
}

void JobCoordinator::advance(Time now) {
  dismiss(now);
  if (stop_ != Stop::kNo) return;
  const auto rank = first_failure_.rank(now);
  if (!rank) return;
  name(*rank, ended_.at(*rank), to_string(ended_.at(*rank)));
  stop(Stop::kFailure, SIGTERM);
}

JobCoordinator::Time JobCoordinator::next_deadline() const {
  const bool is_open = first_failure_.has_failed() && stop_ == Stop::kNo;
  const Time next = is_open ? first_failure_.decided_at() : Time::max();
  return course_ ? std::min(next, course_->next_deadline()) : next;
}

void JobCoordinator::name(int rank, const ExitStatus& status, const std::string& reason) {
  failure_ = NameFailureOrder{generation_, rank, status, reason};
  order_(*failure_);
}

void JobCoordinator::stop(Stop why, int signal) {
  stop_ = why;
  stop_signal_ = signal;
  if (course_) course_->record_stop();
  order_(StopOrder{generation_, signal});
}

void JobCoordinator::on(const HostFinished& over, Time now) {
  if (over.generation != generation_) return;
  finished_hosts_.insert(over.host);
  all_done_ = all_done_ && over.all_done;
  if (independent_code_ == 0) independent_code_ = over.code;
  if (finished_hosts_.size() < processes_.size()) return;
  // All processes have ended: nothing is left to wait for.
  advance(first_failure_.has_failed() ? std::max(now, first_failure_.decided_at()) : now);
  decide();
}

void JobCoordinator::decide() {
  if (stop_ == Stop::kSignal) return after_signal();
  if (failure_) return after_failure();
  if (stop_ == Stop::kResize && !all_done_) return resize(1, "");
  finish(independent_code_);
}

void JobCoordinator::after_signal() {
  if (received_ == SIGINT) return finish(kInterruptedCode);
  if (all_done_) return finish(0);
  if (!failure_) return finish(kRestartMeCode);
  reports_failure_ = true;
  finish(failure_->status.as_code());
}

void JobCoordinator::after_failure() {
  const NameFailureOrder failure = *failure_;
  const ExitKind ending = exit_kind_of(failure.status);
  if (options_.roles) {  // its processes were restarted alone, as often as they may be
    reports_failure_ = true;
    return finish(failure.status.as_code());
  }
  if (ending == ExitKind::kRestartMe)
    return resize(0, base::str_cat("Rank ", failure.rank, " saved and asked for a restart. "));
  reports_failure_ = true;
  const int code = failure.status.as_code();
  if (ending == ExitKind::kUsage || ending == ExitKind::kInterrupted) return finish(code);
  if (options_.elastic && is_lost(failure.status) && num_processes() > options_.elastic->min)
    return resize(-1, "");
  if (restarts_ >= options_.max_restarts) return finish(code);
  ++restarts_;
  start(base::str_cat("All processes are restarted: restart ", restarts_, " of ",
                      options_.max_restarts, "."));
}

void JobCoordinator::resize(int change, const std::string& note) {
  if (membership_changes_ >= options_.max_membership_changes)
    return finish(failure_ ? failure_->status.as_code() : kRestartMeCode);
  ++membership_changes_;
  processes_.front() += change;  // elastic jobs have one host
  start(base::str_cat(note, "The job continues with ", num_processes(), " processes."));
}

void JobCoordinator::start(const std::string& note) {
  const StartOrder order{
      .generation = ++generation_, .processes = processes_, .summary = summary(note)};
  stop_ = Stop::kNo;
  received_ = 0;
  course_.reset();
  if (options_.roles) course_.emplace(*options_.roles, options_.grace);
  stop_signal_ = SIGTERM;
  signaled_.clear();
  first_failure_ = {};
  ended_.clear();
  failure_.reset();
  reports_failure_ = false;
  finished_hosts_.clear();
  all_done_ = true;
  independent_code_ = 0;
  order_(order);
}

void JobCoordinator::finish(int exit_code) {
  order_(FinishOrder{.exit_code = exit_code, .summary = summary("")});
}

JobSummary JobCoordinator::summary(const std::string& note) const {
  return {.restarts = restarts_,
          .membership_changes = membership_changes_,
          .reports_failure = reports_failure_,
          .note = note};
}

int JobCoordinator::num_processes() const {
  return std::accumulate(processes_.begin(), processes_.end(), 0);
}

}  // namespace brigade::launch
