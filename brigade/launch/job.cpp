#include "brigade/launch/job.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/launch/child_process.h"
#include "brigade/launch/loss_mailbox.h"
#include "brigade/launch/rank_environment.h"
#include "brigade/launch/resources.h"
#include "brigade/launch/signal_source.h"
#include "brigade/machine/topology.h"
#include "brigade/rpc/rendezvous.h"

namespace brigade::launch {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPiece = 16 * 1024;
// After its end a process's pipes close at once, unless something below it escaped.
constexpr std::chrono::seconds kDrain{2};

void check(const JobOptions& options) {
  check_argument(!options.command.empty(), "There is no program to launch.");
  check_argument(options.processes >= 1, base::str_cat("A job of ", options.processes,
                                                       " processes was asked for; at least 1."));
  check_argument(options.max_restarts >= 0, "JobOptions::max_restarts must be 0 or more.");
  if (!options.elastic) return;
  const ElasticRange& range = *options.elastic;
  check_argument(range.min >= 1 && range.min <= options.processes && options.processes <= range.max,
                 base::str_cat("An elastic job of ", range.min, " to ", range.max,
                               " processes cannot begin with ", options.processes, "."));
}

class Job {
 public:
  Job(const JobOptions& options, std::ostream& output, std::ostream& errors)
      : options_(options),
        signals_({SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1}),  // before any thread exists
        router_(options.output, output, errors),
        topology_(machine::discover_topology()),
        server_(rpc::make_rendezvous_server(
            {.key = options.key,
             .world_size = options.processes,
             .peer_timeout = options.peer_timeout,
             .on_lost = [this](const cluster::LostMember& lost) { losses_.put(lost); }})),
        processes_(options.processes) {}

  JobResult run() {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // should a shim be killed, what was below it comes here
    for (int generation = 0;; ++generation) {
      run_generation(generation);
      if (const auto exit_code = decide()) {
        result_.exit_code = *exit_code;
        result_.processes = processes_;
        return result_;
      }
    }
  }

 private:
  struct OfRank {
    ChildProcess process;
    std::optional<ExitStatus> ended;
    bool was_killed = false;
  };
  enum class Stop { kNo, kFailure, kSignal, kResize };

  void run_generation(int generation) {
    generation_ = generation;
    failure_.reset();
    stop_ = Stop::kNo;
    start_all();
    while (std::ranges::any_of(ranks_, [](const OfRank& each) { return !each.ended; })) {
      wait_for_something();
      read_everything();
      collect_ends();
      collect_losses();
      if (stop_ != Stop::kNo && Clock::now() >= kill_at_) kill_all();
    }
    drain();
    ranks_.clear();
  }

  void start_all() {
    losses_.clear();
    server_->begin_generation(generation_, processes_);
    started_ = Clock::now();
    const auto shares = options_.binding == CoreBinding::kDivide || options_.gpus
                            ? divide_resources(topology_, options_.gpus, processes_)
                            : std::vector<ResourceShare>(static_cast<std::size_t>(processes_));
    for (const std::string& line : shared_cards(shares)) base::log_warning(line);
    for (int rank = 0; rank < processes_; ++rank) {
      const ResourceShare& share = shares[static_cast<std::size_t>(rank)];
      ranks_.push_back({.process = ChildProcess(
                            {.command = options_.command,
                             .environment = rank_environment({.rank = rank,
                                                              .world_size = processes_,
                                                              .generation = generation_,
                                                              .rendezvous = server_->address(),
                                                              .gpus = share.gpus},
                                                             options_.key),
                             .cores = options_.binding == CoreBinding::kDivide ? share.cores
                                                                               : machine::CoreSet(),
                             .shim = options_.shim})});
    }
  }

  void wait_for_something() {
    std::vector<pollfd> waiting = {{.fd = signals_.descriptor(), .events = POLLIN, .revents = 0},
                                   {.fd = losses_.descriptor(), .events = POLLIN, .revents = 0}};
    for (const OfRank& each : ranks_) {
      for (const FileDescriptor* pipe : {&each.process.output(), &each.process.errors()}) {
        if (pipe->is_open() && !each.ended)
          waiting.push_back({.fd = pipe->number(), .events = POLLIN, .revents = 0});
      }
    }
    int timeout = -1;
    if (stop_ != Stop::kNo) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(kill_at_ - Clock::now());
      timeout = static_cast<int>(std::clamp<std::int64_t>(left.count() + 1, 0, 1000));
    }
    ::poll(waiting.data(), waiting.size(), timeout);
    while (const auto signal = signals_.next()) handle(*signal);
  }

  void handle(int signal) {
    if (signal == SIGCHLD) return;
    if (signal == SIGUSR1) return grow();
    if (stop_ == Stop::kSignal) return kill_all();  // the second one
    received_ = signal;
    begin_stop(Stop::kSignal, signal == SIGHUP ? SIGTERM : signal);
  }

  /// One more process, if the job may have it: all save, end, and begin again.
  void grow() {
    if (!options_.elastic || processes_ >= options_.elastic->max || stop_ != Stop::kNo) return;
    begin_stop(Stop::kResize, SIGTERM);
  }

  void begin_stop(Stop why, int signal) {
    stop_ = why;
    kill_at_ = Clock::now() + options_.grace;
    for (const OfRank& each : ranks_) {
      if (!each.ended) each.process.signal(signal);
    }
  }

  void kill_all() {
    for (OfRank& each : ranks_) {
      if (each.ended || each.was_killed) continue;
      each.was_killed = true;
      each.process.kill();
    }
    kill_at_ = Clock::time_point::max() - std::chrono::hours(1);
  }

  void read_everything() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) read_rank(static_cast<int>(rank));
  }

  /// Whether one of its pipes is still open at the other end.
  bool read_rank(int rank) {
    const ChildProcess& process = ranks_[static_cast<std::size_t>(rank)].process;
    bool is_open = false;
    for (const Stream stream : {Stream::kOutput, Stream::kErrors}) {
      const FileDescriptor& pipe = stream == Stream::kOutput ? process.output() : process.errors();
      char piece[kPiece];
      ssize_t count = 0;
      while ((count = ::read(pipe.number(), piece, sizeof(piece))) > 0)
        router_.write(rank, stream, {piece, static_cast<std::size_t>(count)});
      is_open = is_open || (count < 0 && (errno == EAGAIN || errno == EINTR));
    }
    return is_open;
  }

  void collect_ends() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      OfRank& each = ranks_[rank];
      if (each.ended) continue;
      each.ended = each.process.poll();
      if (each.ended && !each.ended->is_success() && stop_ == Stop::kNo)
        fail(static_cast<int>(rank), *each.ended, to_string(*each.ended));
    }
  }

  /// Members that are not heard of, though their processes are there: stopped, or hung.
  void collect_losses() {
    for (const cluster::LostMember& lost : losses_.take()) {
      const int rank = lost.member.rank;
      const bool is_ours = rank >= 0 && rank < static_cast<int>(ranks_.size());
      if (!is_ours || stop_ != Stop::kNo) continue;
      OfRank& own = ranks_[static_cast<std::size_t>(rank)];
      own.ended = own.process.poll();
      if (own.ended) {
        if (!own.ended->is_success()) fail(rank, *own.ended, to_string(*own.ended));
        continue;
      }
      // A connection that broke is followed by the process's own end, which says more.
      if (lost.reason.find("heard") == std::string::npos) continue;
      own.was_killed = true;
      own.process.kill();
      fail(rank, {.signal = SIGKILL}, lost.reason);
    }
  }

  void fail(int rank, const ExitStatus& status, const std::string& reason) {
    read_everything();  // its last words
    failure_ = Failure{
        .rank = rank,
        .status = status,
        .reason = reason,
        .after = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - started_),
        .generation = generation_,
        .last_lines = router_.last_lines(rank),
        .others = describe_others(rank)};
    begin_stop(Stop::kFailure, SIGTERM);
  }

  std::vector<std::string> describe_others(int failed) const {
    std::vector<std::string> lines;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (static_cast<int>(rank) == failed) continue;
      const auto& ended = ranks_[rank].ended;
      const auto last = router_.last_lines(static_cast<int>(rank));
      lines.push_back(base::str_cat(
          "rank ", rank, ": ",
          ended ? base::str_cat("had ended, ", to_string(*ended)) : std::string("was running"),
          last.empty() ? "" : base::str_cat("; last said: ", last.back())));
    }
    return lines;
  }

  void drain() {
    const auto deadline = Clock::now() + kDrain;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      while (read_rank(static_cast<int>(rank)) && Clock::now() < deadline) {
        pollfd pipes[] = {
            {.fd = ranks_[rank].process.output().number(), .events = POLLIN, .revents = 0},
            {.fd = ranks_[rank].process.errors().number(), .events = POLLIN, .revents = 0}};
        ::poll(pipes, 2, 10);
      }
      router_.end(static_cast<int>(rank));
    }
  }

  /// The job's exit code, or nothing where it goes on with another generation.
  std::optional<int> decide() {
    if (stop_ == Stop::kSignal) return received_ == SIGINT ? 130 : 75;
    if (stop_ == Stop::kResize) return resize(processes_ + 1);
    if (!failure_) return 0;
    const Ending ending = ending_of(failure_->status);
    if (ending == Ending::kRestartMe) {
      base::log_info(base::str_cat("Rank ", failure_->rank, " saved and asked for a restart."));
      return resize(processes_);
    }
    result_.failures.push_back(*failure_);
    base::log_error(to_string(*failure_));
    if (ending == Ending::kUsage || ending == Ending::kInterrupted)
      return failure_->status.as_code();
    if (options_.elastic && failure_->status.signal && processes_ > options_.elastic->min)
      return resize(processes_ - 1);
    if (result_.restarts >= options_.max_restarts) return failure_->status.as_code();
    ++result_.restarts;
    base::log_warning(base::str_cat("All processes are started again: restart ", result_.restarts,
                                    " of ", options_.max_restarts, "."));
    return std::nullopt;
  }

  std::optional<int> resize(int processes) {
    if (result_.membership_changes >= options_.max_membership_changes)
      return failure_ ? failure_->status.as_code() : 75;
    ++result_.membership_changes;
    if (processes != processes_)
      base::log_warning(base::str_cat("The job goes on with ", processes, " instead of ",
                                      processes_, " processes."));
    processes_ = processes;
    return std::nullopt;
  }

  const JobOptions& options_;
  SignalSource signals_;
  LineRouter router_;
  const machine::Topology topology_;
  LossMailbox losses_;  // filled by the server's threads
  const std::unique_ptr<rpc::RendezvousServer> server_;
  int processes_;
  int generation_ = 0;
  std::vector<OfRank> ranks_;
  Clock::time_point started_;
  Stop stop_ = Stop::kNo;
  Clock::time_point kill_at_;  // of what is stopping
  int received_ = 0;
  std::optional<Failure> failure_;
  JobResult result_;
};

}  // namespace

std::string to_string(const Failure& failure) {
  std::string text = base::str_cat("Rank ", failure.rank, " failed first: ", failure.reason, ", ",
                                   static_cast<double>(failure.after.count()) / 1e3,
                                   " s after the start of generation ", failure.generation, ".");
  if (!failure.last_lines.empty()) {
    text += "\n  its last lines:";
    for (const std::string& line : failure.last_lines) text += base::str_cat("\n    ", line);
  }
  for (const std::string& line : failure.others) text += base::str_cat("\n  ", line);
  return text;
}

JobResult run_job(const JobOptions& options, std::ostream& output, std::ostream& errors) {
  check(options);
  return Job(options, output, errors).run();
}

}  // namespace brigade::launch
