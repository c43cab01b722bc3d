#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/cluster/task.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/optim/update_rule.h"
#include "brigade/ps/parameter_service.h"
#include "brigade/ps/server_placement.h"

namespace brigade::ps {

struct ParameterClientOptions {
  /// A server that cannot be reached for this long is an error; until then it is waited for, and
  /// calls are made again: its successor has every update that was acknowledged.
  std::chrono::milliseconds server_timeout = std::chrono::minutes(5);
  /// Ends all waits.
  concurrency::CancelToken cancel = {};
};

/// A worker's view of all parameter servers of a job as one. It joins them, renews its leases,
/// sends each server its part of every call, all at the same time, and makes calls again after a
/// lost connection or a server's restart, so that each push is applied exactly once.
///
/// A worker that was replaced by a later incarnation gets ReplacedError from every call. A server
/// that does not return within `server_timeout` is kUnavailable, naming it. While it waits, the log
/// says for whom.
///
/// Thread-safety: one thread at a time. Owns a thread that renews the leases, and one per server
/// that makes its calls.
class ParameterClient {
 public:
  /// [server]: a connection to each server of the job, in the order of their indices. Joins all,
  /// `servers[0]` first, whose incarnation counts.
  ParameterClient(cluster::Task task, std::vector<std::unique_ptr<ParameterService>> servers,
                  ParameterClientOptions options = {});
  /// Leaves the servers, as finished, unless an exception is in flight or a call has failed; then
  /// the leases run out. Takes a second at most.
  ~ParameterClient();
  ParameterClient(const ParameterClient&) = delete;
  ParameterClient& operator=(const ParameterClient&) = delete;

  int num_servers() const;
  std::int64_t incarnation() const;

  /// Creates the variables, each on its server, and configures all servers: the chief does this
  /// once. Whether the servers were ready already: then a job is in progress, whose values and step
  /// count, and the caller is a chief that was restarted. Throws as `ParameterStore::create`.
  bool create(std::span<const Creation> variables, std::span<const PlacedVariable> placement,
              const optim::UpdateRule& rule, const JobConfig& job);
  /// A worker that is not the chief: waits until the servers are ready, however long that takes.
  /// Later calls use `placement`. Throws kFailedPrecondition if the servers' job is not `job`.
  void wait_ready(std::span<const PlacedVariable> placement, const JobConfig& job);
  /// The chief: lets the workers begin.
  void set_ready();

  void assign(std::span<const NamedState> variables, std::int64_t step);
  void set_learning_rate(double rate);
  /// All variables with their slots, in the order of the placement.
  std::vector<NamedState> states();

  struct Values {
    std::vector<Parameter::Reading> values;  ///< in the order of the placement
    std::int64_t step = 0;                   ///< of the job, at `ps:0`
  };
  /// The values of all variables. Each server's are from one moment.
  Values pull();
  /// Pushes gradients (undefined: none), in the order of the placement, to their servers, and
  /// returns the values of all variables after it. In kSync mode the gradients are kept for the
  /// token of `begin_step`, and no values are returned: they change with the step's decision, which
  /// the next `begin_step` awaits and the next `pull` applies.
  Values push(std::span<const at::Tensor> gradients);
  /// Waits until this worker may begin its next step: at once in kAsync mode; with kBounded until
  /// the slowest is near enough; with kSync for a token. Does nothing if it has permission for a
  /// step that it has not pushed yet.
  void begin_step();

  /// The step of the job in the latest reply of `ps:0`.
  std::int64_t step() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace brigade::ps
