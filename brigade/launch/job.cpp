#include "brigade/launch/job.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/launch/descendants.h"
#include "brigade/launch/failure_report.h"
#include "brigade/launch/first_failure.h"
#include "brigade/launch/generation.h"
#include "brigade/launch/loss_mailbox.h"
#include "brigade/launch/rank_environment.h"
#include "brigade/launch/resources.h"
#include "brigade/launch/signal_source.h"
#include "brigade/launch/start_plan.h"
#include "brigade/launch/status_server.h"
#include "brigade/machine/topology.h"
#include "brigade/rpc/rendezvous.h"

namespace brigade::launch {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kInterruptedCode = 130;
constexpr int kRestartMeCode = 75;
constexpr std::chrono::seconds kEscapedPatience{10};

/// Whether a process that was told to stop did so.
bool is_orderly(const RankProcess& process) {
  const ExitStatus& status = *process.ended();
  if (process.was_killed()) return true;
  if (status.signal) return *status.signal == SIGTERM || *status.signal == SIGINT;
  return status.is_success() || status.code == kRestartMeCode || status.code == kInterruptedCode ||
         status.code == 128 + SIGTERM;
}

class Job {
 public:
  Job(const JobOptions& options, std::ostream& output, std::ostream& errors)
      : options_(options),
        signals_({SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1}),  // before any thread exists
        strangers_(descendants_of(::getpid())),
        router_(options.output, output, errors),
        processes_(options.processes) {
    if (options.status_port) {
      status_server_.emplace(*options.status_port);
      base::log_info(base::str_cat("Status: http://127.0.0.1:", status_server_->port(),
                                   "/metrics and /healthz"));
    }
  }

  JobResult run() {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // should a shim be killed, what was below it comes here
    for (int number = 0;; ++number) {
      run_generation(number);
      if (const auto exit_code = decide()) {
        result_.exit_code = *exit_code;
        result_.processes = processes_;
        return result_;
      }
    }
  }

 private:
  enum class Stop { kNo, kFailure, kSignal, kResize };

  bool is_independent() const { return options_.coupling == Coupling::kIndependent; }

  void run_generation(int number) {
    begin(number);
    while (!generation_->is_over()) {
      wait();
      generation_->pass_on_output();
      note_ends();
      note_losses();
      name_first_failure();
      generation_->kill_overdue();
      if (status_server_) status_server_->serve([this] { return status(); });
    }
    kill_escaped();
    generation_->finish_output();
    if (failure_) add_endings(*failure_, *generation_);
  }

  /// What was below a shim that was killed has come to this process, and is all of it that no shim
  /// that runs has.
  void kill_escaped() const {
    std::vector<pid_t> spared = strangers_;
    for (const RankProcess& process : generation_->processes()) {
      if (process.is_running()) spared.push_back(process.pid());
    }
    kill_descendants(::getpid(), kEscapedPatience, spared);
  }

  void begin(int number) {
    number_ = number;
    stop_ = Stop::kNo;
    failure_.reset();
    first_failure_ = {};
    losses_.take();
    const auto shares = divide();
    const Meeting meeting{.generation = number,
                          .world_size = processes_,
                          .rendezvous = open_rendezvous(),
                          .master = is_independent() ? "" : free_loopback_address()};
    plan_ = plan_start(options_, meeting, shares);
    generation_ = std::make_unique<Generation>(plan_, 0, router_, options_.grace);
  }

  std::vector<ResourceShare> divide() const {
    machine::Topology topology;
    if (options_.binding == CoreBinding::kDivide) topology = machine::discover_topology();
    auto shares = divide_resources(topology, options_.gpus, processes_);
    if (number_ == 0) {
      for (const std::string& line : shared_cards(shares)) base::log_warning(line);
    }
    return shares;
  }

  /// Where this generation meets; nowhere if nobody would come.
  std::string open_rendezvous() {
    if (is_independent() || processes_ == 1 || !rpc::is_built_in()) return {};
    if (server_) {
      server_->begin_generation(number_, processes_);
    } else {
      server_ = rpc::make_rendezvous_server(
          {.key = options_.key,
           .world_size = processes_,
           .generation = number_,
           .peer_timeout = options_.peer_timeout,
           .on_lost = [this](const cluster::LostMember& lost) { losses_.put(lost); }});
    }
    return server_->address();
  }

  void wait() {
    std::vector<pollfd> waiting = {{.fd = signals_.descriptor(), .events = POLLIN, .revents = 0},
                                   {.fd = losses_.descriptor(), .events = POLLIN, .revents = 0}};
    generation_->add_to(waiting);
    auto until = generation_->kill_at();
    if (first_failure_.has_failed() && stop_ == Stop::kNo)
      until = std::min(until, first_failure_.decided_at());
    if (status_server_) {
      status_server_->add_to(waiting);
      until = std::min(until, status_server_->next_deadline());
    }
    int timeout = -1;
    if (until != Clock::time_point::max()) {
      const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now());
      timeout = static_cast<int>(std::clamp<std::int64_t>(left.count() + 1, 0, 60'000));
    }
    ::poll(waiting.data(), waiting.size(), timeout);
    while (const auto signal = signals_.next()) handle(*signal);
  }

  void handle(int signal) {
    if (signal == SIGCHLD) return;
    if (signal == SIGUSR1) return grow();
    if (stop_ == Stop::kSignal) return generation_->kill_all();  // the second one
    received_ = signal;
    stop(Stop::kSignal, signal == SIGHUP ? SIGTERM : signal);
  }

  /// One more process, if the job may have it: all save, end, and begin again.
  void grow() {
    if (options_.elastic && processes_ < options_.elastic->max && stop_ == Stop::kNo) {
      base::log_info("One more process is taken in: all save and begin again.");
      return stop(Stop::kResize, SIGTERM);
    }
    base::log_warning("SIGUSR1 asks for one more process, which this job cannot have now.");
  }

  void stop(Stop why, int signal) {
    stop_ = why;
    generation_->stop(signal);
  }

  void note_ends() {
    // By index: one that is started again is added at the end.
    for (std::size_t i = 0; i < generation_->processes().size(); ++i) {
      RankProcess& process = generation_->processes()[i];
      if (!process.notice_end()) continue;
      if (process.ended()->signal) kill_escaped();
      if (stop_ != Stop::kNo) {
        if (stop_ != Stop::kFailure && !failure_ && !is_orderly(process)) name_failure(process);
      } else if (is_independent()) {
        go_on_without(process);
      } else {
        first_failure_.note_end(process.rank(), *process.ended(), round_);
      }
    }
    round_ = Clock::now();
  }

  void note_losses() {
    for (const cluster::LostMember& lost : losses_.take()) {
      RankProcess* const process = generation_->find(lost.member.rank);
      if (process == nullptr || !process->is_running() || stop_ != Stop::kNo) continue;
      // A connection that broke is followed by the process's own end, which says more.
      if (lost.reason.find("heard") == std::string::npos) {
        first_failure_.note_lost(process->rank());
        continue;
      }
      process->kill();
      failure_ = describe(*process, {.signal = SIGKILL}, lost.reason);
      stop(Stop::kFailure, SIGTERM);
    }
  }

  void name_first_failure() {
    if (stop_ != Stop::kNo) return;
    const auto rank = first_failure_.rank(Clock::now());
    if (!rank) return;
    name_failure(*generation_->find(*rank));
    stop(Stop::kFailure, SIGTERM);
  }

  void name_failure(const RankProcess& process) {
    generation_->pass_on_output();  // its last words
    failure_ = describe(process, *process.ended(), to_string(*process.ended()));
  }

  Failure describe(const RankProcess& failed, const ExitStatus& status,
                   const std::string& reason) const {
    Failure failure = describe_failure(failed, status, reason, *generation_, router_);
    failure.generation = number_;
    if (is_independent()) failure.others.clear();
    return failure;
  }

  /// One of several that have nothing to do with each other has ended.
  void go_on_without(const RankProcess& process) {
    if (process.ended()->is_success()) return;
    const int rank = process.rank();
    const Ending ending = ending_of(*process.ended());
    generation_->pass_on_output();
    int& used = ending == Ending::kRestartMe ? result_.membership_changes : result_.restarts;
    const int allowed =
        ending == Ending::kRestartMe ? options_.max_membership_changes : options_.max_restarts;
    if (ending != Ending::kRestartMe)
      report(describe(process, *process.ended(), to_string(*process.ended())));
    if (ending == Ending::kUsage || ending == Ending::kInterrupted || used >= allowed) {
      if (lone_code_ == 0) lone_code_ = process.ended()->as_code();
      return;
    }
    ++used;
    base::log_warning(base::str_cat("Rank ", rank, " is started again."));
    generation_->start_again(rank, plan_[static_cast<std::size_t>(rank)]);
  }

  void report(Failure failure) {
    base::log_error(to_string(failure));
    result_.failures.push_back(std::move(failure));
  }

  /// The job's exit code, or nothing where it goes on with another generation.
  std::optional<int> decide() {
    const bool all_done =
        std::ranges::all_of(generation_->processes(),
                            [](const RankProcess& each) { return each.ended()->is_success(); });
    if (stop_ == Stop::kSignal) return after_signal(all_done);
    if (failure_) return after_failure();
    if (stop_ == Stop::kResize && !all_done) return resize(processes_ + 1);
    return lone_code_;
  }

  int after_signal(bool all_done) {
    if (received_ == SIGINT) return kInterruptedCode;
    if (all_done) return 0;
    if (!failure_) return kRestartMeCode;
    report(*failure_);
    return failure_->status.as_code();
  }

  std::optional<int> after_failure() {
    const Ending ending = ending_of(failure_->status);
    if (ending == Ending::kRestartMe) {
      base::log_info(base::str_cat("Rank ", failure_->rank, " saved and asked for a restart."));
      return resize(processes_);
    }
    report(*failure_);
    const int code = failure_->status.as_code();
    if (ending == Ending::kUsage || ending == Ending::kInterrupted) return code;
    if (options_.elastic && is_lost(failure_->status) && processes_ > options_.elastic->min)
      return resize(processes_ - 1);
    if (result_.restarts >= options_.max_restarts) return code;
    ++result_.restarts;
    base::log_warning(base::str_cat("All processes are started again: restart ", result_.restarts,
                                    " of ", options_.max_restarts, "."));
    return std::nullopt;
  }

  std::optional<int> resize(int processes) {
    if (result_.membership_changes >= options_.max_membership_changes)
      return failure_ ? failure_->status.as_code() : kRestartMeCode;
    ++result_.membership_changes;
    base::log_info(base::str_cat("The job goes on with ", processes, " processes."));
    processes_ = processes;
    return std::nullopt;
  }

  JobStatus status() const {
    JobStatus status{.generation = number_,
                     .restarts = result_.restarts,
                     .membership_changes = result_.membership_changes,
                     .seconds = std::chrono::duration<double>(Clock::now() - started_).count(),
                     .is_stopping = stop_ != Stop::kNo};
    status.up.resize(static_cast<std::size_t>(processes_));
    for (const RankProcess& each : generation_->processes())
      status.up[static_cast<std::size_t>(each.rank())] = each.is_running();
    return status;
  }

  const JobOptions& options_;
  const Clock::time_point started_ = Clock::now();
  SignalSource signals_;
  const std::vector<pid_t> strangers_;  // children that this process had before
  LineRouter router_;
  LossMailbox losses_;
  std::optional<StatusServer> status_server_;
  std::unique_ptr<rpc::RendezvousServer> server_;
  JobResult result_;

  // Of this generation.
  int processes_;
  int number_ = 0;
  std::vector<SpawnOptions> plan_;
  std::unique_ptr<Generation> generation_;
  Stop stop_ = Stop::kNo;
  int received_ = 0;
  FirstFailure first_failure_;
  std::optional<Failure> failure_;
  Clock::time_point round_ = Clock::now();  // what is noticed together has this time
  int lone_code_ = 0;
};

}  // namespace

JobResult run_job(const JobOptions& options, std::ostream& output, std::ostream& errors) {
  check(options);
  return Job(options, output, errors).run();
}

}  // namespace brigade::launch
