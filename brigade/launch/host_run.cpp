#include "brigade/launch/host_run.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/environment_variables.h"
#include "brigade/launch/resources.h"
#include "brigade/launch/start_plan.h"
#include "brigade/machine/topology.h"

namespace brigade::launch {

namespace {

// A process's pipes close when the shim has killed its descendants; only if that fails they stay
// open longer.
constexpr std::chrono::seconds kDrain{2};
// How often a busy output is polled.
constexpr std::chrono::milliseconds kBusyPause{10};

/// Whether a process ended in the way that a stop request asks for.
bool is_orderly(const RankProcess& process) {
  const ExitStatus& status = *process.ended();
  if (process.was_killed()) return true;
  if (status.signal) return *status.signal == SIGTERM || *status.signal == SIGINT;
  return status.is_success() || status.code == kRestartMeCode || status.code == kInterruptedCode ||
         status.code == 128 + SIGTERM;
}

OtherRank describe_other(const RankProcess& other, const std::string& name,
                         const LineRouter& router) {
  const auto last = router.last_lines(other.rank());
  const bool is_running = other.is_running();
  return {other.rank(), is_running,
          base::str_cat(name,
                        is_running ? " was running"
                                   : base::str_cat(" had ended with ", to_string(*other.ended())),
                        last.empty() ? "; it had said nothing"
                                     : base::str_cat("; it last said: ", last.back()))};
}

/// Describes a failed process at the time when the failure is noticed: its last lines of output,
/// and the state of every other process. The text names `reason` instead of `status`.
RankFailure describe_failure(const JobOptions& options, const RankProcess& failed,
                             const ExitStatus& status, const std::string& reason,
                             const Generation& generation, const LineRouter& router) {
  RankFailure failure{.rank = failed.rank(),
                      .task = options.roles ? label_of(*options.roles, failed.rank()) : "",
                      .status = status,
                      .reason = reason,
                      .after = std::chrono::duration_cast<std::chrono::milliseconds>(
                          Generation::Clock::now() - generation.started()),
                      .last_lines = router.last_lines(failed.rank())};
  for (const RankProcess& other : generation.processes()) {
    const bool is_replaced = generation.find(other.rank()) != &other;
    if (&other == &failed || is_replaced) continue;
    failure.others.push_back(describe_other(other, process_name(options, other.rank()), router));
  }
  return failure;
}

/// Adds how the other processes that were running then have ended. All must have ended.
void add_endings(RankFailure& failure, const Generation& generation) {
  for (OtherRank& other : failure.others) {
    const RankProcess* const process = generation.find(other.rank);
    if (!other.was_running || process == nullptr) continue;
    other.text += base::str_cat("; then it ended with ", to_string(*process->ended()),
                                process->was_killed() ? " after the grace period" : "");
  }
}

}  // namespace

int host_of(int rank, const std::vector<int>& processes) {
  int host = 0;
  for (int end = processes.front(); rank >= end; end += processes[static_cast<std::size_t>(host)])
    ++host;
  return host;
}

HostRun::HostRun(const JobOptions& options, Hosts& hosts, LineRouter& router)
    : options_(options),
      hosts_(hosts),
      router_(router),
      unrelated_children_(descendants_of(::getpid())),
      stall_detector_(options.peer_timeout) {}

void HostRun::begin(const StartOrder& order) {
  order_ = order;
  first_rank_ =
      std::accumulate(order.processes.begin(), order.processes.begin() + hosts_.self(), 0);
  failure_.reset();
  restarts_.clear();
  undecided_.clear();
  dismissed_.clear();
  servers_stop_at_.reset();
  stop_signal_ = 0;
  needs_early_sweep_ = false;
  needs_sweep_ = true;
  drained_until_.reset();
  is_end_reported_ = false;
  plan_ = plan(order);
  generation_ = std::make_unique<Generation>(plan_, first_rank_, router_, options_.grace);
  stall_detector_.end();
  if (!order.rendezvous.empty()) stall_detector_.begin(Clock::now());
}

std::vector<SpawnOptions> HostRun::plan(const StartOrder& order) const {
  machine::Topology topology;
  if (options_.binding == CoreBinding::kDivide) topology = machine::discover_topology();
  const int here = order.processes[static_cast<std::size_t>(hosts_.self())];
  const int clients = options_.roles ? num_clients_on(*options_.roles, hosts_.self()) : here;
  const auto slices = divide_resources_for(clients, topology, options_.gpus, here);
  if (order.generation == 0) {
    for (const std::string& line : shared_cards(slices, first_rank_)) base::log_warning(line);
  }
  return plan_start(
      options_,
      {.generation = order.generation,
       .world_size = std::accumulate(order.processes.begin(), order.processes.end(), 0),
       .first_rank = first_rank_,
       .rendezvous = order.rendezvous,
       .master = order.master,
       .cluster = order.cluster},
      slices);
}

void HostRun::name(const NameFailureOrder& order) {
  const int host = host_of(order.rank, order_.processes);
  if (host != hosts_.self()) {
    failure_ = RankFailure{.rank = order.rank,
                           .task = options_.roles ? label_of(*options_.roles, order.rank) : "",
                           .status = order.status,
                           .reason = order.reason,
                           .after = std::chrono::duration_cast<std::chrono::milliseconds>(
                               Clock::now() - generation_->started()),
                           .generation = order.generation,
                           .elsewhere = hosts_.name(host)};
    return;
  }
  RankProcess& process = *generation_->find(order.rank);
  generation_->pass_on_output();  // its last lines
  failure_ = describe(process, order.status, order.reason);
  if (options_.coupling == Coupling::kIndependent) failure_->others.clear();
  if (process.is_running()) process.kill();
}

void HostRun::stop(int signal) {
  stall_detector_.end();
  if (!is_running()) return;
  if (signal == SIGKILL) return generation_->kill_all();
  if (!options_.roles) return generation_->stop(signal);
  generation_->stop_some([this](int rank) { return !is_server(*options_.roles, rank); }, signal);
}

void HostRun::stop_without_orders(int signal) {
  stop(signal);
  if (!options_.roles || !is_running()) return;
  stop_signal_ = signal;
  servers_stop_at_ = Clock::now() + options_.grace / 2;
}

void HostRun::stop_servers() {
  if (!servers_stop_at_ || Clock::now() < *servers_stop_at_) return;
  servers_stop_at_.reset();
  generation_->stop_some([this](int rank) { return is_server(*options_.roles, rank); },
                         stop_signal_);
}

void HostRun::add_to(std::vector<pollfd>& waiting) const {
  if (!is_running()) return;
  generation_->add_to(waiting);
  waiting.push_back({.fd = sweep_.descriptor(), .events = POLLIN, .revents = 0});
}

HostRun::Clock::time_point HostRun::next_deadline() const {
  if (!is_running()) return Clock::time_point::max();
  auto next = std::min(generation_->kill_at(), stall_detector_.next_look());
  if (router_.is_busy()) next = std::min(next, Clock::now() + kBusyPause);
  if (drained_until_) next = std::min(next, *drained_until_);
  for (const Restart& restart : restarts_) next = std::min(next, restart.deadline);
  if (servers_stop_at_) next = std::min(next, *servers_stop_at_);
  return next;
}

void HostRun::advance() {
  if (!is_running()) return;
  generation_->pass_on_output();
  collect_ends();
  check_for_stalls();
  generation_->kill_overdue();
  stop_servers();
  if (sweep_.is_running()) return;
  start_again();
  if (generation_->is_over() && restarts_.empty() && !is_undecided()) {
    finish();
  } else if (needs_early_sweep_) {
    begin_sweep();
  }
}

void HostRun::collect_ends() {
  for (std::size_t i = 0; i < generation_->processes().size(); ++i) {
    RankProcess& process = generation_->processes()[i];
    if (!process.notice_end()) continue;
    const ExitStatus status = *process.ended();
    // The shim may have been killed instead of the program.
    if (status.signal) needs_early_sweep_ = true;
    if (options_.coupling == Coupling::kIndependent && !generation_->is_stopping()) {
      handle_end(i);
      continue;
    }
    if (options_.roles) undecided_.insert(process.rank());
    hosts_.send(RankEnded{order_.generation, process.rank(), status, is_orderly(process),
                          process.was_asked()});
  }
}

void HostRun::handle_end(std::size_t index) {
  generation_->pass_on_output();  // its last lines
  const RankProcess& process = generation_->processes()[index];
  if (process.ended()->is_success() || !is_restarted(process)) return;
  restarts_.push_back(
      {.rank = process.rank(), .process = index, .deadline = Clock::now() + kDrain});
}

bool HostRun::is_restarted(const RankProcess& process) {
  const ExitStatus& status = *process.ended();
  const bool asked = exit_kind_of(status) == ExitKind::kRestartMe;
  if (!asked) log_failure(process);
  if (!may_restart(process)) {
    if (independent_.code == 0) independent_.code = status.as_code();
    return false;
  }
  ++(asked ? independent_.membership_changes : independent_.restarts);
  return true;
}

bool HostRun::may_restart(const RankProcess& process) const {
  const ExitKind ending = exit_kind_of(*process.ended());
  if (ending == ExitKind::kUsage || ending == ExitKind::kInterrupted) return false;
  if (ending == ExitKind::kRestartMe)
    return independent_.membership_changes < options_.max_membership_changes;
  return independent_.restarts < options_.max_restarts;
}

void HostRun::log_failure(const RankProcess& process) {
  generation_->pass_on_output();  // its last lines
  RankFailure failure = describe(process, *process.ended(), to_string(*process.ended()));
  failure.others.clear();
  base::log_error(to_string(failure));
  independent_.failures.push_back(std::move(failure));
}

void HostRun::restart(const RestartOrder& order) {
  if (host_of(order.rank, order_.processes) != hosts_.self()) return;
  undecided_.erase(order.rank);
  const RankProcess& ended = *generation_->find(order.rank);
  if (order.is_failure) log_failure(ended);
  const auto& all = generation_->processes();
  const auto index =
      std::ranges::find_if(all, [&](const RankProcess& each) { return &each == &ended; });
  restarts_.push_back({.rank = order.rank,
                       .process = static_cast<std::size_t>(index - all.begin()),
                       .deadline = Clock::now() + kDrain});
}

void HostRun::release(const ReleaseOrder& order) {
  if (host_of(order.rank, order_.processes) != hosts_.self()) return;
  undecided_.erase(order.rank);
  const RankProcess& ended = *generation_->find(order.rank);
  if (order.kind == EndKind::kTooLate) {
    base::log_warning(process_name(options_, order.rank), " ended with ", to_string(*ended.ended()),
                      " after the training had ended; the job does not need it.");
  }
  const bool asked = exit_kind_of(*ended.ended()) == ExitKind::kRestartMe;
  if (order.kind == EndKind::kFailed && !asked) log_failure(ended);
}

void HostRun::dismiss(const DismissOrder& order) {
  for (const int rank : order.ranks) {
    RankProcess* const process = generation_->find(rank);
    if (process == nullptr) continue;  // of another host
    dismissed_.insert(rank);
    if (!process->is_running()) continue;
    if (order.signal == SIGKILL) {
      process->kill();
    } else {
      process->signal(order.signal);
    }
  }
}

void HostRun::start_again() {
  const auto now = Clock::now();
  for (const Restart& restart : std::exchange(restarts_, {})) {
    if (generation_->is_stopping() || dismissed_.contains(restart.rank)) {
      give_up_restart(restart);
      continue;
    }
    if (!generation_->processes()[restart.process].is_drained() && now < restart.deadline) {
      restarts_.push_back(restart);
      continue;
    }
    base::log_warning(options_.roles ? process_name(options_, restart.rank)
                                     : base::str_cat("Rank ", restart.rank),
                      " is restarted.");
    generation_->start_again(restart.rank, plan_again(restart.rank));
  }
}

void HostRun::give_up_restart(const Restart& restart) {
  if (!options_.roles) return;
  undecided_.insert(restart.rank);
  hosts_.send(RankEnded{order_.generation, restart.rank,
                        *generation_->processes()[restart.process].ended(), /*is_orderly=*/true});
}

SpawnOptions HostRun::plan_again(int rank) const {
  SpawnOptions plan = plan_[static_cast<std::size_t>(rank - first_rank_)];
  if (!options_.roles) return plan;
  const auto lives = std::ranges::count(generation_->processes(), rank, &RankProcess::rank);
  plan.environment[cluster::kGenerationVariable] = std::to_string(order_.generation + lives);
  return plan;
}

void HostRun::check_for_stalls() {
  const auto now = Clock::now();
  if (!stall_detector_.is_due(now)) return;
  for (const RankProcess& process : generation_->processes()) {
    if (!process.is_running()) continue;
    if (const auto reason = stall_detector_.look(process.pid(), now))
      hosts_.send(RankLost{order_.generation, process.rank(), *reason});
  }
}

/// The descendants of a killed shim have become children of this process: everything that is not
/// below a running shim.
void HostRun::begin_sweep() {
  needs_early_sweep_ = false;
  std::vector<pid_t> spared = unrelated_children_;
  for (const RankProcess& process : generation_->processes()) {
    if (process.is_running()) spared.push_back(process.pid());
  }
  sweep_.begin(std::move(spared));
}

/// All processes have ended: kills what escaped, and passes on the rest of the output.
void HostRun::finish() {
  if (std::exchange(needs_sweep_, false)) return begin_sweep();
  const auto now = Clock::now();
  if (!drained_until_ || router_.is_busy()) drained_until_ = now + kDrain;
  if (generation_->is_drained() || now >= *drained_until_) report_end();
}

void HostRun::report_end() {
  for (const RankProcess& process : generation_->processes())
    generation_->end_output(process.rank());
  is_end_reported_ = true;
  stall_detector_.end();
  if (failure_) add_endings(*failure_, *generation_);
  // One that was restarted counts as its last process ended.
  const bool all_done = std::ranges::all_of(generation_->processes(), [&](const RankProcess& each) {
    return generation_->find(each.rank())->ended()->is_success();
  });
  hosts_.send(HostFinished{hosts_.self(), order_.generation, all_done, independent_.code});
}

RankFailure HostRun::describe(const RankProcess& failed, const ExitStatus& status,
                              const std::string& reason) const {
  RankFailure failure = describe_failure(options_, failed, status, reason, *generation_, router_);
  failure.generation = order_.generation;
  return failure;
}

JobStatus HostRun::status() const {
  JobStatus status{.generation = order_.generation, .first_rank = first_rank_};
  if (!generation_) return status;
  status.is_stopping = generation_->is_stopping();
  status.up.resize(static_cast<std::size_t>(plan_.size()));
  for (const RankProcess& each : generation_->processes())
    status.up[static_cast<std::size_t>(each.rank() - first_rank_)] = each.is_running();
  return status;
}

}  // namespace brigade::launch
