#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "brigade/cluster/task.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/optim/update_rule.h"
#include "brigade/ps/client/call_clock.h"
#include "brigade/ps/parameter_service.h"
#include "brigade/ps/server_placement.h"

namespace brigade::ps {

struct ParameterClientOptions {
  /// A server that cannot be reached for this long is an error; until then it is waited for, and
  /// calls are made again: its successor has every update that was acknowledged.
  std::chrono::milliseconds server_timeout = std::chrono::minutes(5);
  /// A call that is not answered for this long, beside a second for each megabyte that it
  /// transfers, is made again, with twice the time.
  std::chrono::milliseconds attempt_timeout = std::chrono::seconds(30);
  /// kBFloat16: gradients of float32 and float64 are rounded to it before they are sent, so that
  /// pushes and the servers' logs are half as long, or less. Others, and unset: as they are.
  std::optional<at::ScalarType> push_dtype = std::nullopt;
  /// Whether `push` waits until the servers have the push on their disks. Otherwise, in kAsync and
  /// kBounded mode, it waits until they have the one before, and the client keeps a copy of the
  /// last one, for a server that is restarted without it. Only if this process dies, too, before
  /// that server is back is that one lost.
  bool wait_for_disk = false;
  /// Ends all waits.
  concurrency::CancelToken cancel = {};
  /// Runs during calls of the client, for whoever cancels those that take too long.
  std::shared_ptr<CallClock> calls = nullptr;
};

/// A worker's view of all parameter servers of a job as one. It joins them, renews its leases,
/// sends each server its part of every call, all at the same time, and makes calls again after a
/// lost connection or a server's restart, so that each push is applied exactly once.
///
/// A worker that was replaced by a later incarnation gets ReplacedError from every call. A server
/// that does not return within `server_timeout` is kUnavailable, naming it. While it waits, the log
/// says for whom. A server that returns without its variables is kDataLoss. Of the errors of
/// several servers the first, by index, is thrown, after the calls to all have ended.
///
/// Thread-safety: one thread at a time; `begin_early` and `send_early` may be called by another
/// thread than the rest, while the first calls nothing. Owns a thread for each server that renews
/// its lease, and one for each server but the first that makes its calls; those of the first are
/// made by the caller's.
class ParameterClient {
 public:
  /// [server]: a connection to each server of the job, in the order of their indices. Joins all,
  /// `servers[0]` first, whose incarnation counts.
  ParameterClient(cluster::Task task, std::vector<std::unique_ptr<ParameterService>> servers,
                  ParameterClientOptions options = {});
  /// Leaves the servers, as finished, unless an exception is in flight or the latest call has
  /// failed; then the leases run out. Before it leaves, it waits until the servers have its pushes
  /// on their disks. If a server does not answer, the chief, for which the servers wait, and a
  /// worker with a push that is not acknowledged try for 15 seconds, and another worker for one; a
  /// renewal in progress takes up to two, and a call that the services cannot end its own time.
  ~ParameterClient();
  ParameterClient(const ParameterClient&) = delete;
  ParameterClient& operator=(const ParameterClient&) = delete;

  int num_servers() const;
  std::int64_t incarnation() const;
  /// Whether a job is in progress, at `step()`: any server is ready.
  bool is_in_progress();

  /// Creates the variables, each on its server, and configures all servers: the chief does this
  /// once. Whether the servers were ready already: then a job is in progress, whose values and step
  /// count, and the caller is a chief that was restarted; `set_ready` was called.
  ///
  /// Throws kInvalidArgument unless `placement` has exactly the variables, each once, on servers
  /// that exist; kDataLoss, naming it, for a server that has no variables while another is ready:
  /// its folder was lost; and as `ParameterStore::create`.
  bool create(std::span<const Creation> variables, std::span<const PlacedVariable> placement,
              const optim::UpdateRule& rule, const JobConfig& job);
  /// A worker that is not the chief: waits until the servers are ready, however long that takes.
  /// Later calls use `placement`. Throws kFailedPrecondition if the servers' job is not `job`, and
  /// as `create` for `placement` and a server that has no variables.
  void wait_ready(std::span<const PlacedVariable> placement, const JobConfig& job);
  /// The chief: lets the workers begin.
  void set_ready();

  /// Sets these variables, any of the placement's, and the step. Throws kNotFound for others.
  void assign(std::span<const NamedState> variables, std::int64_t step);
  void set_learning_rate(double rate);
  /// The servers' rate, as `ps:0` knows it.
  double learning_rate();
  struct States {
    std::vector<NamedState> variables;  ///< in the order of the placement
    std::int64_t step = 0;              ///< of the job, at `ps:0` at the moment of its variables
  };
  /// All variables with their slots: for a checkpoint. Each server's are from one moment, when it
  /// has this worker's pushes on its disk. With kSync those of all servers are from `step`, so they
  /// are read again while decisions of steps come between. Throws kDeadlineExceeded if that does
  /// not succeed within `server_timeout`.
  States states();

  struct Values {
    /// In the order of the placement. Those of a server may share one block of memory, which is
    /// kept as long as any of them: copy what you keep for long.
    std::vector<Parameter::Reading> values;
    std::int64_t step = 0;  ///< of the job, at `ps:0`
    /// Each server's values are from one moment, after as many updates of the job as it had then;
    /// these are the least and the most of the servers. Every push goes to all servers, so if they
    /// differ, the values mix moments between which that many updates came.
    std::int64_t oldest_step = 0;
    std::int64_t newest_step = 0;
    /// Of a push in the kAsync and kBounded modes: how many updates of other workers came between
    /// the values that its gradients were computed with (those that the latest `pull`, `push` or
    /// `states` returned) and it; the most of the servers. Unset if no server knows, since its
    /// first answer was lost.
    std::optional<std::int64_t> staleness = std::nullopt;
  };
  /// The values of all variables. Each server's are from one moment; see `Values::oldest_step`.
  Values pull();
  /// From now on `pull` and `push` return no value of this variable of the placement (an undefined
  /// tensor): the caller pulls rows of it.
  void pull_by_rows(std::size_t variable);
  /// Rows of variables, in the order of the placement: their indices, int64 [n] in any order on the
  /// CPU; undefined: none. Returns [n, ...] for each, undefined where `indices` is. All servers are
  /// asked at the same time; each server's rows are from one moment, with kSync after the latest
  /// decision that this worker knows. Throws kInvalidArgument for rows that do not exist.
  std::vector<at::Tensor> pull_rows(std::span<const at::Tensor> indices);
  /// Pushes gradients (undefined: none), in the order of the placement, to their servers, and
  /// returns the values of all variables after it. In kSync mode the gradients are kept for the
  /// token of `begin_step`, and no values are returned: they change with the step's decision, which
  /// the next `begin_step` awaits and the next `pull` applies.
  ///
  /// Throws kInvalidArgument, before anything is sent, unless there is one entry for each variable,
  /// and every gradient is a tensor on the CPU with its variable's shape and dtype, dense or sparse
  /// along its rows (`comm::to_sparse`), of which the rows alone are sent, of a variable that is
  /// trainable; kFailedPrecondition without `begin_step`, except in kAsync mode.
  ///
  /// A push that failed otherwise may have been applied on some servers. Where that is not known it
  /// is completed by the next call that reaches the server, before that call's own gradients are
  /// applied; in kSync mode the gradients that were pushed first for a token count.
  Values push(std::span<const at::Tensor> gradients);
  /// Begins to send the next push while its gradients are computed: those of `variables`, of the
  /// placement, are expected, and sent in this order. It only saves time. A `push` of other
  /// gradients, or one for which this was not possible, sends all it has; the servers apply either
  /// as one update. Throws kInvalidArgument for a variable that is not trainable.
  void begin_early(std::vector<std::size_t> variables);
  /// The gradient of the next of these variables: the tensor that `push` gets, on the CPU and
  /// dense, which never changes any more: the client may keep it.
  void send_early(const at::Tensor& gradient);
  /// The push will not be made: the servers do nothing. Any thread that may call the client.
  void drop_early() noexcept;
  /// Waits until this worker may begin its next step: immediately in kAsync mode; with kBounded
  /// until the slowest is near enough; with kSync for a token. Does nothing if it has permission
  /// for a step that it has not pushed yet. The workers it waits for are logged if it takes long.
  void begin_step();

  /// The step of the job in the latest reply of `ps:0` that had one.
  std::int64_t step() const;

 private:
  class Impl;
  const int exceptions_;  // in flight when this was made
  std::unique_ptr<Impl> impl_;
};

}  // namespace brigade::ps
