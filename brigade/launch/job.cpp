#include "brigade/launch/job.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/address.h"
#include "brigade/launch/host_run.h"
#include "brigade/launch/hosts.h"
#include "brigade/launch/job_coordinator.h"
#include "brigade/launch/job_status.h"
#include "brigade/launch/mailbox.h"
#include "brigade/launch/rank_environment.h"
#include "brigade/launch/signal_source.h"
#include "brigade/rpc/rendezvous.h"

namespace brigade::launch {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kFailedCode = 1;

/// While it lives, the log is written through `output`.
class LogRedirection {
 public:
  explicit LogRedirection(StandardOutput& output) {
    base::set_log_sink(
        [&output](base::LogLevel level, std::string_view message) { output.log(level, message); });
  }
  ~LogRedirection() { base::set_log_sink({}); }
  LogRedirection(const LogRedirection&) = delete;
  LogRedirection& operator=(const LogRedirection&) = delete;
};

/// A new folder for the job's parameter servers, removed with all that they left in it.
class TemporaryServerFolder {
 public:
  TemporaryServerFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "brigade-ps-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw Error(ErrorCode::kUnavailable, "No folder for parameter servers can be made as ",
                  pattern, ": ", std::strerror(errno), "; give one (--ps-folder).");
    }
    path_ = pattern;
  }
  ~TemporaryServerFolder() { remove(path_); }
  TemporaryServerFolder(const TemporaryServerFolder&) = delete;
  TemporaryServerFolder& operator=(const TemporaryServerFolder&) = delete;

  const io::Path& path() const { return path_; }
  void clear() {
    for (const auto& entry : std::filesystem::directory_iterator(path_)) remove(entry.path());
  }

 private:
  static void remove(const io::Path& path) {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) {
      base::log_warning("The folder ", path.string(), " was not removed: ", error.message());
    }
  }

  io::Path path_;
};

std::string rendezvous_host(const HostOptions& hosts) {
  if (hosts.count == 1) return "127.0.0.1";
  return cluster::parse_address(hosts.rendezvous).host;
}

/// The launcher's loop: waits for signals, output and messages, and dispatches them.
class Job {
 public:
  /// `server_folder` is null for a job without roles, and for one whose servers have a folder that
  /// the user has named.
  Job(const JobOptions& options, TemporaryServerFolder* server_folder, StandardOutput& output)
      : options_(options),
        server_folder_(server_folder),
        signals_({SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1}),  // before any thread is started
        output_(output),
        router_(options.output, output) {
    if (options.status_port) {
      status_server_.emplace(open_status_port(*options.status_port));
      base::log_info("Status: http://127.0.0.1:", status_server_->port(), "/metrics and /healthz");
    }
  }

  JobResult run() {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // inherits the descendants of a killed shim
    for (int round = 0;;) {
      auto joined = join_hosts_or_signal(options_, round, signals_);
      if (const int* const signal = std::get_if<int>(&joined))
        return stopped_while_waiting(*signal);
      hosts_ = std::move(std::get<std::unique_ptr<Hosts>>(joined));
      round = hosts_->rendezvous_round() + 1;
      work_or_report_failure();
      if (!may_rejoin()) return finished();
      ++result_.restarts;
      // The servers of a host that was lost have lost their variables. All begin with the chief's
      // checkpoint.
      if (server_folder_ != nullptr) server_folder_->clear();
      base::log_warning("This launcher waits for all launchers of the job to join again.");
    }
  }

 private:
  JobResult stopped_while_waiting(int signal) {
    base::log_info(signal_text(signal),
                   " while this launcher waited for those of the other hosts: ",
                   next_generation_ == 0 ? "nothing was started." : "it stops waiting.");
    result_.exit_code = signal == SIGINT ? kInterruptedCode : kRestartMeCode;
    is_stop_requested_ = true;
    return finished();
  }

  JobResult finished() {
    for (const LostOutput& lost : router_.lost()) {
      base::log_error(lost.file, " lacks ", lost.bytes,
                      " bytes of output, which could not be written (", lost.reason, ").");
    }
    output_.report_dropped();
    result_.was_stopped = is_stop_requested_;
    result_.lost_output = router_.lost();
    if (!result_.lost_output.empty() && result_.exit_code == 0) result_.exit_code = kFailedCode;
    return result_;
  }

  /// Reports a failure of this launcher to the others.
  void work_or_report_failure() {
    try {
      work();
    } catch (const std::exception& error) {
      run_.reset();  // its processes first
      hosts_->send(HostFailed{hosts_->self(), error.what()});
      hosts_->leave();
      throw;
    }
    coordinator_.reset();
    run_.reset();
    hosts_->leave();
    hosts_.reset();
  }

  /// Whether all launchers may join again after the loss of one.
  bool may_rejoin() const {
    return lost_host_ && lost_host_->may_return && !is_stop_requested_ &&
           result_.restarts < options_.max_restarts;
  }

  void work() {
    lost_host_.reset();
    const auto& processes = hosts_->processes();
    if (processes.size() > 1)
      check_shown_ranks(options_, std::accumulate(processes.begin(), processes.end(), 0));
    run_.emplace(options_, *hosts_, router_);
    if (hosts_->self() == 0) {
      coordinator_.emplace(options_, hosts_->processes(),
                           [this](const Message& order) { broadcast(order); });
      coordinator_->begin(next_generation_, so_far());
    }
    for (;;) {
      while (handle_messages()) run_->advance();  // what was ordered may be due immediately
      if (is_finished_ || (lost_host_ && !run_->is_running())) return;
      wait();
      handle_signals();
      run_->advance();
      for (const auto& handle : member_events_.take()) handle();
      check_for_lost_hosts();
      if (status_server_) status_server_->serve(status_pages([this] { return status(); }));
      output_.report_dropped();
    }
  }

  JobSummary so_far() const {
    JobSummary summary{.restarts = result_.restarts,
                       .membership_changes = result_.membership_changes};
    if (next_generation_ > 0) {  // one was lost
      summary.note = base::str_cat("All launchers have joined again: restart ", result_.restarts,
                                   " of ", options_.max_restarts, ".");
    }
    return summary;
  }

  /// Sends an order of the coordinator to all launchers.
  void broadcast(const Message& order) {
    const auto* const start = std::get_if<StartOrder>(&order);
    hosts_->send(start == nullptr ? order : with_addresses(*start));
  }

  /// The order with the addresses of its generation, whose rendezvous is opened here.
  StartOrder with_addresses(StartOrder order) {
    if (options_.coupling == Coupling::kIndependent) return order;
    if (options_.roles) {
      order.cluster = cluster_of(*options_.roles, hosts_->addresses()).to_json();
      return order;
    }
    const int world_size = std::accumulate(order.processes.begin(), order.processes.end(), 0);
    order.rendezvous = rendezvous(order.generation, world_size);
    order.master = free_address(rendezvous_host(options_.hosts));
    return order;
  }

  /// Opens the rendezvous of a generation and returns its address; empty if it needs none.
  std::string rendezvous(int generation, int world_size) {
    if (world_size == 1 || !rpc::is_built_in()) return {};
    if (server_) {
      server_->begin_generation(generation, world_size);
    } else {
      server_ = rpc::make_rendezvous_server(
          {.address = cluster::to_string(cluster::Address{rendezvous_host(options_.hosts), 0}),
           .key = options_.key,
           .world_size = world_size,
           .generation = generation,
           .peer_timeout = options_.peer_timeout,
           .on_lost =
               [this](const cluster::LostMember& lost, int now) {
                 member_events_.put([this, lost, now] { on_lost(lost, now); });
               },
           .on_left =
               [this](const cluster::Member& member, int now) {
                 member_events_.put([this, rank = member.rank, now] { record_lost(now, rank); });
               },
           .on_all_joined =
               [this](int now) {
                 member_events_.put([this, now] { hosts_->send(AllJoinedOrder{now}); });
               }});
    }
    return server_->address();
  }

  /// Returns whether there were messages.
  bool handle_messages() {
    const std::vector<Message> messages = hosts_->take();
    const auto now = Clock::now();  // messages received together have one time
    for (const Message& message : messages) {
      if (lost_host_) continue;  // only the cleanup is left
      if (coordinator_) coordinator_->handle(message, now);
      std::visit([this](const auto& each) { apply(each); }, message);
    }
    if (coordinator_ && !lost_host_) coordinator_->advance(now);
    return !messages.empty();
  }

  void apply(const StartOrder& order) {
    if (order.generation > 0) adopt(order.summary);
    next_generation_ = order.generation + 1;
    result_.processes = std::accumulate(order.processes.begin(), order.processes.end(), 0);
    run_->begin(order);
  }
  void apply(const AllJoinedOrder& order) {
    if (order.generation == run_->status().generation) run_->on_all_joined();
  }
  void apply(const RestartOrder& order) {
    result_.restarts = order.restarts;
    result_.membership_changes = order.membership_changes;
    run_->restart(order);
  }
  void apply(const ReleaseOrder& order) { run_->release(order); }
  void apply(const DismissOrder& order) { run_->dismiss(order); }
  void apply(const NameFailureOrder& order) { run_->name(order); }
  void apply(const StopOrder& order) { run_->stop(order.signal); }
  void apply(const FinishOrder& order) {
    adopt(order.summary);
    result_.exit_code = order.exit_code;
    is_finished_ = true;
  }
  void apply(const HostFailed& failed) {
    if (failed.host == hosts_->self()) return;
    give_up({base::str_cat("The launcher of ", hosts_->name(failed.host),
                           " cannot continue: ", failed.reason)});
  }
  template <class Report>
  void apply(const Report&) {}  // handled by the coordinator

  /// Takes over the coordinator's summary of a generation that ended.
  void adopt(const JobSummary& summary) {
    const IndependentResult& independent = run_->independent();
    result_.restarts = summary.restarts + independent.restarts;
    result_.membership_changes = summary.membership_changes + independent.membership_changes;
    adopt(independent.failures);
    if (summary.reports_failure && run_->failure()) report(*run_->failure());
    if (!summary.note.empty()) base::log_info(summary.note);
  }

  void adopt(const std::vector<RankFailure>& failures) {
    result_.failures.insert(result_.failures.end(), failures.begin(), failures.end());
  }

  void report(const RankFailure& failure) {
    base::log_error(to_string(failure));
    result_.failures.push_back(failure);
  }

  void check_for_lost_hosts() {
    if (lost_host_) return;
    if (auto lost = hosts_->lost_host()) give_up(std::move(*lost));
  }

  /// Ends the job after the loss of a host.
  void give_up(LostHost lost) {
    base::log_error(lost.reason,
                    run_->is_running() ? "\n  The processes of this host are stopped." : "");
    adopt(run_->independent().failures);  // no summary of this generation will come
    result_.failures.push_back(
        {.rank = -1, .reason = lost.reason, .generation = run_->status().generation});
    result_.exit_code = lost.exit_code;
    lost_host_ = std::move(lost);
    run_->stop_without_orders(SIGTERM);
    run_->advance();  // all may have ended, and only wait for orders
  }

  void wait() {
    std::vector<pollfd> waiting;
    for (const int descriptor :
         {signals_.descriptor(), hosts_->descriptor(), member_events_.descriptor()})
      waiting.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
    run_->add_to(waiting);
    auto until = run_->next_deadline();
    if (coordinator_ && !lost_host_) until = std::min(until, coordinator_->next_deadline());
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
  }

  void handle_signals() {
    while (const auto signal = signals_.next()) {
      if (*signal == SIGCHLD) continue;
      hosts_->send(SignalReceived{hosts_->self(), *signal});
      // The coordinator may no longer be reachable.
      const bool is_stop = *signal != SIGUSR1;
      if (is_stop && (lost_host_ || is_stop_requested_)) run_->stop(SIGKILL);
      is_stop_requested_ = is_stop_requested_ || is_stop;
      if (is_stop_requested_) output_.stop_waiting();
    }
  }

  void on_lost(const cluster::LostMember& lost, int generation) {
    const int rank = lost.member.rank;
    // A broken connection is followed by the end of the process, whose exit status says more.
    if (lost.kind != cluster::LossKind::kSilent) return record_lost(generation, rank);
    hosts_->send(RankLost{generation, rank, lost.reason});
  }

  void record_lost(int generation, int rank) {
    if (coordinator_) coordinator_->record_lost(generation, rank);
  }

  JobStatus status() const {
    JobStatus status = run_->status();
    status.restarts = result_.restarts + run_->independent().restarts;
    status.membership_changes = result_.membership_changes + run_->independent().membership_changes;
    status.seconds = std::chrono::duration<double>(Clock::now() - started_).count();
    status.is_stopping = status.is_stopping || lost_host_;
    return status;
  }

  const JobOptions& options_;
  TemporaryServerFolder* const server_folder_;
  const Clock::time_point started_ = Clock::now();
  SignalSource signals_;
  StandardOutput& output_;
  LineRouter router_;
  std::optional<rpc::HttpServer> status_server_;
  // Of the processes' rendezvous, which the launcher of host 0 serves. Every event names its
  // generation, because the next one may have begun before it is handled.
  Mailbox<std::function<void()>> member_events_;
  std::unique_ptr<rpc::RendezvousServer> server_;
  std::unique_ptr<Hosts> hosts_;
  std::optional<HostRun> run_;
  std::optional<JobCoordinator> coordinator_;  // on host 0
  JobResult result_;
  std::optional<LostHost> lost_host_;
  int next_generation_ = 0;
  bool is_stop_requested_ = false;  // by a signal
  bool is_finished_ = false;
};

}  // namespace

JobResult run_job(const JobOptions& options, StandardOutput& output) {
  check(options);
  JobOptions secured = options;
  if (!secured.key && secured.hosts.count == 1) secured.key = cluster::ClusterKey::generate();
  std::optional<TemporaryServerFolder> folder;
  if (secured.roles) {
    if (secured.roles->folder.empty()) secured.roles->folder = folder.emplace().path();
    for (int rank = 0; rank < num_processes(*secured.roles); ++rank)
      secured.output.labels.push_back(label_of(*secured.roles, rank));
  }
  const LogRedirection log(output);
  return Job(secured, folder ? &*folder : nullptr, output).run();
}

}  // namespace brigade::launch
