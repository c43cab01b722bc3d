#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "brigade/distribute/optimizer/gradient_synchronizer.h"
#include "brigade/ps/client/parameter_client.h"
#include "brigade/ps/parameter_service.h"
#include "brigade/ps/server_placement.h"
#include "brigade/variables/partitioner.h"

namespace brigade::ps {

struct RemoteSynchronizerOptions {
  JobConfig job = {};
  /// Whether this worker creates, initializes and configures the variables.
  bool is_chief = true;
  /// Assigns the optimizer's variables to the servers; must be the same in all workers.
  ServerPlacement ps_strategy = device::round_robin_strategy;
  /// Divides variables into parts, each of which is placed; must be the same in all workers.
  variables::Partitioner variable_partitioner = {};
  /// What device scopes call the servers.
  ServerTasks tasks = {};
  /// As `ParameterServerOptions::overlap_from_bytes`.
  std::optional<std::size_t> overlap_from_bytes = std::nullopt;
};

/// Gradients are pushed to parameter servers, which update the variables; this process has a copy
/// of them. The gradients of the process's replicas are added by the comm::ReductionTree of
/// their number, and replica 0 pushes them for all.
///
/// When a step ends, the copy has the values after this worker's push, with whatever other workers
/// have pushed until then; in kSync mode the values after the step's decision, which `apply` waits
/// for, so that every worker ends a step with the same values. `aggregate` adds the gradients of
/// this process alone, so clipping by the global norm is by the norm of one worker's gradients.
///
/// The chief's variables, slots and learning rate become the job's in `store_state`, and other
/// workers begin after its `start_job` or first step, with the servers' values. So does a chief
/// that was restarted while the job was in progress: what it restored from a checkpoint, also the
/// learning rate, is older. Afterwards its `set_learning_rate` counts again.
///
/// Gradients of rows are pushed as rows. A variable of which layers fetch rows (`Embedding`) is
/// pulled by rows from then on; only `fetch_state` brings it as a whole. Its dense gradient is
/// refused with kFailedPrecondition.
///
/// `minimize` sends gradients while backward computes others (`EarlyGradients`), if all replicas
/// are on the CPU. Gradients that are accumulated, aggregated, or changed before they are applied
/// (clipping by the global norm needs all of them) are sent when they are applied.
///
/// The factory uses `client` for one optimizer, and throws kUnimplemented for a second. A step that
/// gets values of another shape or dtype throws kFailedPrecondition, naming the variable: the job's
/// model is another one.
distribute::SynchronizerFactory remote_synchronizer(std::shared_ptr<ParameterClient> client,
                                                    RemoteSynchronizerOptions options);

}  // namespace brigade::ps
