#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "brigade/cluster/membership.h"
#include "brigade/comm/communicator.h"
#include "brigade/comm/hierarchical.h"
#include "brigade/comm/process_communicator.h"

namespace brigade::distribute {

/// The processes that train one model together, as one of them sees them: who they are, how they
/// exchange tensors, and how the replicas lie in them.
///
/// Thread-safety: a value; its communicator serves one thread at a time.
struct Workers {
  std::shared_ptr<cluster::Membership> membership;
  std::shared_ptr<comm::ProcessCommunicator> communicator;
  comm::ProcessLayout layout;
  /// Gradients travel in packs of at least so many bytes; 0: all in one; unset: by trial.
  std::optional<std::int64_t> bytes_per_pack = 0;
  /// What was asked for: which way tensors on GPUs go, and for how long.
  comm::CommunicationOptions communication = {};

  int count() const { return static_cast<int>(layout.replicas.size()); }
  int index() const { return layout.process; }
  bool is_chief() const { return layout.process == 0; }
};

/// Where this process's replicas stand among all: what cuts batches and numbers replicas.
struct ReplicaRange {
  int first = 0;  ///< the first of this process's replicas
  int local = 1;  ///< how many it has
  int total = 1;  ///< over all processes
};

}  // namespace brigade::distribute
