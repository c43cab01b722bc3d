#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/cluster/task.h"
#include "brigade/io/state_tree.h"
#include "brigade/ps/coordinator/function_data.h"

namespace brigade::ps {

struct WorkerJoin {
  cluster::Task task;
  /// 0: a new life of the task. Otherwise the one that `coordinator` gave earlier.
  std::int64_t incarnation = 0;
  /// `WorkerGrant::coordinator`; empty in a new life. To another coordinator every life is new.
  std::string coordinator = {};
};

/// A worker's membership.
struct WorkerGrant {
  std::string token;        ///< proves who calls; secret
  std::string coordinator;  ///< differs in each life of the coordinator
  std::int64_t incarnation = 0;
  std::chrono::milliseconds lease{0};  ///< a worker that is silent for this long is lost
};

struct WorkerStatus {
  bool is_done = false;    ///< the coordinator has ended, and so does the worker
  bool is_wanted = false;  ///< the outcome of the function that the worker has named counts
};

/// A value that each worker makes for itself when it is first needed there.
struct PerWorkerCreation {
  std::int64_t id = 0;  ///< of this coordinator
  std::string function;
  io::StateTree arguments = {};
};

/// A function for a worker to run.
struct FunctionWork {
  std::string coordinator;  ///< `WorkerGrant::coordinator`
  std::int64_t id = 0;
  std::string function;
  FunctionData arguments = {};
  std::vector<PerWorkerCreation> per_worker = {};
};

struct TakeRequest {
  /// The call returns without work after this time; the worker then calls again.
  std::chrono::milliseconds wait{0};
  /// The phase whose functions the worker can run; see `CoordinatorCore::begin_phase`. 0: functions
  /// that are scheduled in none.
  std::int64_t phase = 0;
  /// Called several times a second while the call waits; throws once nobody waits for the answer.
  /// Stays in the process.
  std::function<void()> check = {};
};

struct FunctionError {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

/// How a phase has ended.
struct PhaseEnd {
  std::optional<FunctionError> error = std::nullopt;  ///< unset: it has succeeded
  io::StateTree outcome = {};  ///< what the coordinator has given to all workers
};

struct TakeReply {
  bool is_done = false;  ///< the coordinator has ended, and so does the worker
  std::optional<FunctionWork> work = std::nullopt;
  /// Set if the phase that the worker has asked for is over.
  std::optional<PhaseEnd> phase_end = std::nullopt;
};

/// How a function ended.
struct FunctionReport {
  std::string coordinator;  ///< of its `FunctionWork`
  std::int64_t id = 0;
  std::optional<FunctionError> error = std::nullopt;  ///< unset: it has succeeded
  FunctionData result = {};
};

/// A coordinator as its workers see it. `CoordinatorCore` implements it in the coordinator's
/// process, `connect_to_coordinator` over a connection.
///
/// All calls but `join` need the token of a grant, and renew the lease. They throw NotMemberError
/// to a caller that has to join again, and ReplacedError to one that has to end. One that has not
/// succeeded by `deadline` throws kDeadlineExceeded, one whose connection failed kUnavailable. Both
/// may have been done, and every call may be made again.
///
/// Thread-safety: all functions from any thread.
class CoordinatorService {
 public:
  using Time = std::chrono::steady_clock::time_point;

  virtual ~CoordinatorService() = default;

  /// Throws kNotFound for a task that is none of the workers, ReplacedError if a later incarnation
  /// of it exists.
  virtual WorkerGrant join(const WorkerJoin& request, Time deadline) = 0;
  /// `running`: the function that the worker runs; 0 for none.
  virtual WorkerStatus renew(const std::string& token, std::int64_t running, Time deadline) = 0;
  /// The function that the worker is to run. A worker that has not reported one gets it again.
  virtual TakeReply take(const std::string& token, const TakeRequest& request, Time deadline) = 0;
  virtual void finish(const std::string& token, const FunctionReport& report, Time deadline) = 0;
  /// The worker ends. A function that it has not reported is run by another.
  virtual void leave(const std::string& token, Time deadline) = 0;

  /// Where the coordinator is, for messages: "host:port". Empty: in this process.
  virtual std::string name() const { return {}; }
};

}  // namespace brigade::ps
