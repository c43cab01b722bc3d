#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "brigade/launch/first_failure_finder.h"
#include "brigade/launch/job_options.h"
#include "brigade/launch/message.h"

namespace brigade::launch {

/// Decides about a job: whose failure was the first, when all are to stop, whether they begin
/// again, and what the job ends with. It hears what the launchers report and gives orders to all of
/// them; it starts, waits for and prints nothing.
///
/// Thread-safety: one thread at a time.
class JobCoordinator {
 public:
  using Time = FirstFailureFinder::Time;
  using Order = std::function<void(const Message&)>;

  /// `processes` says how many each host begins with. A StartOrder is given without addresses.
  JobCoordinator(const JobOptions& options, std::vector<int> processes, Order order);

  /// Orders the first generation; of a job that goes on, with its number and what was used up.
  void begin(int generation = 0, const JobSummary& so_far = {});
  /// A report, or an order of its own, which says nothing to it. Those that came together have one
  /// time.
  void handle(const Message& message, Time now);
  /// This rank of this generation is gone from the processes' meeting, lost or as planned: its end
  /// will say more.
  void record_gone(int generation, int rank);
  /// Decides what time brings; after all messages that came together.
  void advance(Time now);
  /// When `advance` is due; max for never.
  Time next_deadline() const;

 private:
  enum class Stop { kNo, kFailure, kSignal, kResize };

  void on(const RankEnded& ended, Time now);
  void on(const RankLost& lost, Time now);
  void on(const SignalReceived& came, Time now);
  void on(const HostFinished& over, Time now);
  template <class Other>
  void on(const Other&, Time) {}

  void grow();
  void name(int rank, const ExitStatus& status, const std::string& reason);
  void stop(Stop why, int signal);
  void decide();
  void after_signal();
  void after_failure();
  void resize(int change, const std::string& note);
  void start(const std::string& note);
  void finish(int exit_code);
  JobSummary summary(const std::string& note) const;
  int num_processes() const;

  const JobOptions& options_;
  const Order order_;
  std::vector<int> processes_;  // by host
  int restarts_ = 0;
  int membership_changes_ = 0;
  int generation_ = -1;

  // Of this generation.
  Stop stop_ = Stop::kNo;
  int received_ = 0;
  std::set<int> signaled_;  // hosts
  FirstFailureFinder first_failure_;
  std::map<int, ExitStatus> ended_;   // by rank
  std::optional<NameFailureOrder> failure_;  // as it was named
  bool reports_failure_ = false;
  std::set<int> finished_hosts_;  // hosts
  bool all_done_ = true;
  int independent_code_ = 0;
};

}  // namespace brigade::launch
