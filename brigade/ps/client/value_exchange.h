#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "brigade/ps/client/job_membership.h"
#include "brigade/ps/client/parameter_client.h"
#include "brigade/ps/client/read_moments.h"
#include "brigade/ps/client/states_of_step.h"
#include "brigade/ps/client/worker_steps.h"
#include "brigade/ps/client/worker_variables.h"
#include "brigade/ps/parameter_service.h"

namespace brigade::ps {

/// The round trips of a worker's training, each with all servers at the same time: pushes go out,
/// and values come back. Knows from which moments the values are that the worker has.
///
/// Thread-safety: one thread at a time.
class ValueExchange {
 public:
  /// All outlive this.
  ValueExchange(JobMembership& membership, const WorkerVariables& variables, WorkerSteps& steps);

  enum class Pulled { kNothing, kAllValues };
  /// One exchange with every server that has something to do. `pushes`: [server], or unset.
  ParameterClient::Values exchange(std::vector<std::optional<Push>> pushes, Pulled pulled);
  /// Begins to send the pushes of the next `exchange` to the servers that have gradients.
  void begin_early(std::vector<Push> announced, Pulled pulled);
  /// As `ParameterClient::pull_rows`.
  std::vector<at::Tensor> pull_rows(std::span<const at::Tensor> indices);
  /// Variables with their slots, once from each server that has variables, and from `ps:0`, after
  /// the latest decision that is known. What they say of later ones is known afterwards.
  ServerStates read_states();
  /// Joins what `read_states` returned; the worker has these values from now on.
  ParameterClient::States take(ServerStates read);

  /// For the `Push::read_at` of the next push to a server.
  std::optional<std::int64_t> read_at(int server) const;

 private:
  ServerSession& session(int server) const { return membership_.session(server); }
  ExchangeRequest request_to(int server, std::optional<Push> push, Pulled pulled) const;
  std::vector<std::size_t> wanted_of(int server, Pulled pulled) const;
  void take_moments(const std::vector<ExchangeReply>& replies, Pulled pulled,
                    ParameterClient::Values& values);
  void record_read(int server, std::int64_t step);
  void check_count(int server, std::size_t expected, std::size_t got) const;

  JobMembership& membership_;
  const WorkerVariables& variables_;
  WorkerSteps& steps_;
  ReadMoments reads_;  // of the values that this worker has
};

}  // namespace brigade::ps
