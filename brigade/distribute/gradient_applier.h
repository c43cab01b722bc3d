#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "brigade/comm/local_group.h"
#include "brigade/optim/optimizer_state.h"

namespace brigade::distribute {

/// Whether gradients are one replica's own or already everybody's sum.
enum class GradientState { kLocal, kAggregated };

/// How gradients meet and who updates: the part of a strategy that turns every replica's gradients
/// into new parameters. A missing (undefined) gradient counts as zero where another replica has
/// one; missing everywhere, the variable, its slots and its step stay as they are.
///
/// Thread-safety: collective; every replica calls from its own thread, in the same order.
class GradientApplier {
 public:
  virtual ~GradientApplier() = default;

  /// Updates the parameters with the sum of the replicas' gradients (kLocal), or with `gradients`
  /// as they are, which then must be equal in every replica (kAggregated). In the order of
  /// `OptimizerState::variables`, contiguous.
  virtual void apply(int replica, std::span<const at::Tensor> gradients, GradientState state) = 0;

  /// Every replica's gradients, summed, for every replica.
  virtual std::vector<at::Tensor> aggregate(int replica, std::span<const at::Tensor> gradients) = 0;
};

/// For replicas that share the parameters' memory: between two barriers each replica adds up the
/// gradients of its share of the elements, in rank order, and updates that share. Nothing is
/// copied, and no replica does more than 1/R of the update. Mirrored on CPU.
std::unique_ptr<GradientApplier> make_share_applier(std::shared_ptr<comm::LocalGroup> group,
                                                    std::shared_ptr<optim::OptimizerState> state);

/// For replicas with parameters of their own: gradients are all-reduced and each replica updates
/// everything it has. Mirrored on GPUs, and any strategy of one replica, where nothing is sent.
std::unique_ptr<GradientApplier> make_replica_applier(
    std::vector<comm::Communicator*> communicators, std::shared_ptr<optim::OptimizerState> state);

}  // namespace brigade::distribute
