#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/checkpoint/safetensors.h"
#include "brigade/cluster/task.h"
#include "brigade/coordination/push_ledger.h"
#include "brigade/coordination/step_decider.h"
#include "brigade/io/state_tree.h"
#include "brigade/ps/store/parameter.h"
#include "brigade/ps/store/parameter_store.h"
#include "brigade/ps/store/row_gradient.h"

namespace brigade::ps {

/// Thrown to a caller whose token the server does not know: its lease has ended, or the server was
/// restarted. It joins again, with the incarnation that it has. Code kUnavailable.
class NotMemberError : public Error {
 public:
  explicit NotMemberError(const std::string& message) : Error(ErrorCode::kUnavailable, message) {}
};

/// Thrown to a task that was replaced: a later incarnation of it has joined, so this one must end.
/// Code kFailedPrecondition.
class ReplacedError : public Error {
 public:
  explicit ReplacedError(const std::string& message)
      : Error(ErrorCode::kFailedPrecondition, message) {}
};

/// Thrown by a server that has too much in progress at the moment: the same call succeeds later.
/// Code kResourceExhausted.
class ServerBusyError : public Error {
 public:
  explicit ServerBusyError(const std::string& message)
      : Error(ErrorCode::kResourceExhausted, message) {}
};

/// Thrown for a push that was not applied and never will be, since its gradients do not fit the
/// variables: its number is free again. After any other error the push may have been applied.
/// kInvalidArgument or kNotFound.
class PushRefusedError : public Error {
 public:
  using Error::Error;
};

/// How the workers' updates are ordered.
enum class UpdateMode {
  kAsync,    ///< each worker's push is applied when it arrives
  kBounded,  ///< as kAsync, and no worker is more than `staleness` steps ahead of the slowest
  kSync      ///< the gradients of a step are added, and applied once
};

/// What the chief decides for a job, and all servers keep.
struct JobConfig {
  UpdateMode mode = UpdateMode::kAsync;
  /// kBounded: the steps by which a worker may be ahead of the slowest.
  std::int64_t staleness = 0;
  /// kSync.
  coordination::SyncOptions sync = {};
  /// kAsync and kBounded: a push is applied with its learning rate divided by its staleness
  /// (`ExchangeReply::staleness`), if that is more than 1 (Zhang et al., "Staleness-aware Async-SGD
  /// for distributed deep learning", 2016). Pushes without `Push::read_at` are not stale.
  bool staleness_aware = false;
  friend bool operator==(const JobConfig&, const JobConfig&) = default;
};

/// Who wants to become a member of a server.
struct JoinRequest {
  cluster::Task task;
  /// 0: a new life of the task, which gets the next incarnation. Otherwise a life that joins again,
  /// or joins another server of the job.
  std::int64_t incarnation = 0;
};

/// A task's membership of one server.
struct Grant {
  std::string token;  ///< proves who calls; secret
  std::int64_t incarnation = 0;
  std::chrono::milliseconds lease{0};  ///< a task that is silent for this long is lost
};

/// What the chief creates on a server: its variables, their update rule, and the job.
struct CreateRequest {
  std::vector<Creation> variables;
  io::StateTree rule;  ///< `optim::UpdateRule::config`
  JobConfig job;
};

/// What a server says about its job.
struct ServerStatus {
  bool is_created = false;
  /// Whether the chief has initialized or restored the variables, so that workers may use them.
  bool is_ready = false;
  std::int64_t step = 0;  ///< `ParameterStore::step`
  double learning_rate = 0;
  JobConfig job;
};

/// The gradients of one worker's step for one server.
struct Push {
  /// From 1 in each incarnation, without gaps, for each server.
  std::int64_t number = 0;
  /// kSync: the token for which they were computed. They are kept until the step is decided.
  std::optional<coordination::StepDecider::Token> token = std::nullopt;
  std::vector<checkpoint::NamedTensor> gradients;  ///< may be empty
  std::vector<RowGradient> rows = {};              ///< of variables that are not in `gradients`
  /// The `ExchangeReply::step` of the values that the gradients were computed with. For
  /// `ExchangeReply::staleness`.
  std::optional<std::int64_t> read_at = std::nullopt;
  /// kAsync and kBounded: the server may answer before the push is on the disk; it only waits until
  /// earlier pushes are (`ExchangeReply::acknowledged`). The caller keeps the push meanwhile: a
  /// restarted server may not have it, and needs it again. Gradients of an `exchange` must not
  /// change before they are acknowledged, unless its service copies them.
  bool acknowledge_later = false;
};

/// One round trip of a step: a push, a pull, or both.
struct ExchangeRequest {
  std::optional<Push> push = std::nullopt;
  /// kSync: the latest decision that the worker knows. A server that has not applied it yet does so
  /// first.
  std::optional<coordination::StepDecision> decision = std::nullopt;
  /// The variables whose values are returned, read after the push was applied.
  std::vector<std::string> pull;
  std::vector<RowQuery> pull_rows = {};  ///< read at the same moment
  /// Without a push: waits until all earlier ones of the caller are on the disk.
  bool await_disk = false;
  /// At the server: where the values of the reply may be, instead of in memory of their own.
  ReplyMemory* reply_memory = nullptr;
};
/// The reply to an ExchangeRequest.
struct ExchangeReply {
  /// Of the push: kApply or kDuplicate, or kGap.
  std::optional<coordination::PushVerdict> verdict = std::nullopt;
  std::vector<Parameter::Reading> values;  ///< in the order of `ExchangeRequest::pull`
  std::vector<at::Tensor> rows = {};       ///< [n, ...] for each of `ExchangeRequest::pull_rows`
  std::int64_t step = 0;                   ///< of the job, at the moment of the values
  /// Of a push with `read_at` that this call applied: how many updates of other workers were
  /// applied between the values that its gradients were computed with and this push.
  std::optional<std::int64_t> staleness = std::nullopt;
  /// Of a push that is kApply or kDuplicate: the number of the caller's last push that is on the
  /// disk, with all before it. That of the push itself, or one less with `acknowledge_later`.
  std::optional<std::int64_t> acknowledged = std::nullopt;
  /// At a client whose service copies pushes: the push as it was sent, if it is acknowledged later,
  /// in memory that nobody changes.
  std::optional<Push> sent = std::nullopt;
};

/// An exchange whose push is sent while its gradients are being computed. The server gets it when
/// it is complete: if this is destroyed before `finish`, nothing was done.
///
/// Thread-safety: one thread at a time. Its service outlives it.
class OpenExchange {
 public:
  virtual ~OpenExchange() = default;
  /// The next gradient of the push: dense, contiguous, on the CPU, and of the form that was
  /// announced. It may change afterwards. May wait for the network. What fails is thrown by
  /// `finish`.
  virtual void add(const at::Tensor& gradient) = 0;
  /// All gradients were added. Throws as `ParameterService::exchange`.
  virtual ExchangeReply finish() = 0;
};

/// A worker asks whether it may begin its next step.
struct BeginStepRequest {
  /// How many steps this incarnation has finished: all servers have answered their pushes.
  std::int64_t finished = 0;
  /// kSync: a gradient that all servers have, for the coordinator to count. Sending it again
  /// changes nothing.
  std::optional<coordination::StepDecider::Token> contribution = std::nullopt;
  /// The call returns without permission after this time; the worker then calls again.
  std::chrono::milliseconds wait{0};
};
/// The answer to a BeginStepRequest.
struct BeginStepReply {
  /// Whether the worker may begin its next step.
  bool may_begin = false;
  /// kSync: what it computes.
  std::optional<coordination::StepDecider::Token> token = std::nullopt;
  /// kSync: the decision of the step before `token`'s, if there is one.
  std::optional<coordination::StepDecision> decision = std::nullopt;
  /// Why it may not begin: the tasks that it waits for, "/job:worker/task:2". For the log.
  std::vector<std::string> waiting_for;
};

/// The calls, as numbers of `rpc::MessageCall`.
enum class ServiceMethod {
  kJoin = 1,
  kRenew,
  kLeave,
  kCreate,
  kAssign,
  kSetReady,
  kSetLearningRate,
  kExchange,
  kStates,
  kBeginStep,
  // Of a replicated server (paired_service.h).
  kRole,
  kVote,
  kFollow
};

/// A parameter server as its clients see it. `ServerCore` implements it in the server's process,
/// `RemoteService` over a connection.
///
/// The first server of a job, `ps:0`, is also its coordinator: it gives incarnations, and alone
/// serves `begin_step`.
///
/// All calls but `join` need the token of a grant. They throw NotMemberError and ReplacedError, and
/// kPermissionDenied for a call that the caller's role does not allow: only the chief creates,
/// assigns and configures. A call that has not succeeded by `deadline` throws kDeadlineExceeded;
/// one whose connection failed throws kUnavailable. Both may have been done, and every call may be
/// made again.
///
/// Thread-safety: all functions from any thread.
class ParameterService {
 public:
  using Time = std::chrono::steady_clock::time_point;

  virtual ~ParameterService() = default;

  /// Throws kNotFound for a task that is none of the job's, ReplacedError if a later incarnation of
  /// it exists.
  virtual Grant join(const JoinRequest& request, Time deadline) = 0;
  /// Renews the lease. Every other call renews it, too.
  virtual ServerStatus renew(const std::string& token, Time deadline) = 0;
  /// The task has finished.
  virtual void leave(const std::string& token, Time deadline) = 0;

  /// As `ParameterStore::create`. Returns the status before the call.
  virtual ServerStatus create(const std::string& token, const CreateRequest& request,
                              Time deadline) = 0;
  /// Sets variables with their slots, and the step: a restore. Throws kFailedPrecondition if
  /// `set_ready` was called: workers use the variables then.
  virtual void assign(const std::string& token, const std::vector<NamedState>& variables,
                      std::int64_t step, Time deadline) = 0;
  /// Lets workers begin.
  virtual void set_ready(const std::string& token, Time deadline) = 0;
  virtual void set_learning_rate(const std::string& token, double rate, Time deadline) = 0;

  /// Throws kFailedPrecondition before `set_ready`, except to the chief.
  virtual ExchangeReply exchange(const std::string& token, const ExchangeRequest& request,
                                 Time deadline) = 0;
  /// Whether gradients may change after `exchange` also where they are not acknowledged: it has
  /// copied them.
  virtual bool copies_pushes() const { return false; }
  /// Begins an exchange with a push of dense gradients that are added later: of those of `request`
  /// only names, shapes and dtypes count. Null if nothing is gained by it.
  virtual std::unique_ptr<OpenExchange> begin_exchange(const std::string& /*token*/,
                                                       const ExchangeRequest& /*request*/,
                                                       Time /*deadline*/) {
    return nullptr;
  }
  /// Variables with their slots, and the step and the last decision, all from one moment: for
  /// checkpoints.
  virtual StoredStates states(const std::string& token, const std::vector<std::string>& names,
                              Time deadline) = 0;
  /// Throws kFailedPrecondition before `set_ready`, and at a server that is not `ps:0`.
  virtual BeginStepReply begin_step(const std::string& token, const BeginStepRequest& request,
                                    Time deadline) = 0;

  /// Where the server is, for messages: "host:port". Empty: in this process.
  virtual std::string name() const { return {}; }
  /// Wakes all calls made through this object that wait, which then throw kUnavailable; so do later
  /// ones. Call it before the object is destroyed while other threads use it.
  virtual void close() {}
};

}  // namespace brigade::ps
