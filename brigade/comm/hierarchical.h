#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "brigade/comm/communicator.h"
#include "brigade/comm/local/local_group.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/comm/process_layout.h"

namespace brigade::comm {

/// Makes communicators among all replicas of all processes, and returns those of this process's
/// replicas, by local rank. A reduction is made within each process first; then local rank 0
/// reduces the result over `across`, and the others copy it.
///
/// Additions are made by the ReductionTree of all replicas: each process adds whole subtrees, and
/// `across` the subtrees' sums. So the bits depend on the values and on the number of replicas,
/// not on how they are distributed over processes: two processes of two replicas give the bits of
/// one of four. (A `local` that is NCCL's adds in its own order within a process whose replicas are
/// one subtree.) With one process it returns `local`.
std::vector<std::unique_ptr<Communicator>> make_hierarchical_communicators(
    std::shared_ptr<LocalGroup> group, std::vector<std::unique_ptr<Communicator>> local,
    std::shared_ptr<ProcessCommunicator> across, const ProcessLayout& layout);

/// The sums of several values over all replicas of all processes, for code that has those of this
/// process's replicas: `values[i][replica]` is value i of a replica, on any device; undefined: it
/// adds nothing. Additions are made by the ReductionTree of all replicas, in the accumulation dtype
/// of `like[i]`, which is also that of the sums. They are new tensors on its device and with its
/// shape, and zeros (-0.0) where no replica has a value. A collective of the processes; null
/// `processes`: there is only this one.
std::vector<at::Tensor> sum_over_replicas(ProcessCommunicator* processes,
                                          const ProcessLayout& layout,
                                          std::span<const std::vector<at::Tensor>> values,
                                          std::span<const at::Tensor> like);

}  // namespace brigade::comm
