#include "brigade/distribute/optimizer/gradient_synchronizer.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <string_view>

#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/comm/reduction_tree.h"
#include "brigade/comm/small_collectives.h"
#include "brigade/distribute/replica_context.h"
#include "brigade/variables/memory_order.h"

namespace brigade::distribute {

std::vector<bool> present(std::span<const at::Tensor> gradients) {
  std::vector<bool> known(gradients.size(), false);
  merge_present(known, gradients);
  return known;
}

void merge_present(std::vector<bool>& known, std::span<const at::Tensor> gradients) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined()) known[i] = true;
  }
}

std::vector<bool> present_anywhere(comm::Communicator& communicator,
                                   std::span<const at::Tensor> gradients) {
  std::vector<bool> known = present(gradients);
  if (communicator.world_size() == 1) return known;
  return comm::all_reduce_flags(communicator, known);
}

void mark_updated(const optim::OptimizerState& state, const std::vector<bool>& known, int replica) {
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i] && !state.is_frozen(i)) state.variables()[i].mark_updated(replica);
  }
}

at::Tensor zeros_for(const variables::Variable& variable, int replica) {
  return at::zeros_like(
      variables::in_memory_order(variable.component(replica).detach(), variable.memory_format()));
}

at::Tensor GradientSynchronizer::apply_with(int, std::span<const at::Tensor>, const at::Tensor&) {
  throw Error(ErrorCode::kUnimplemented, "This synchronizer adds up gradients alone.");
}

std::pair<std::vector<at::Tensor>, at::Tensor> GradientSynchronizer::aggregate_with(
    int, std::span<const at::Tensor>, const at::Tensor&) {
  throw Error(ErrorCode::kUnimplemented, "This synchronizer adds up gradients alone.");
}

namespace {

class ReplicaSynchronizer final : public GradientSynchronizer {
 public:
  explicit ReplicaSynchronizer(const SynchronizerContext& context)
      : group_(context.group),
        communicators_(context.communicators),
        state_(context.state),
        workers_(context.workers),
        purpose_{.use = comm::CallPurpose::Use::kGradients, .optimizer = context.optimizer} {}

  void apply(int replica, std::span<const at::Tensor> gradients, GradientState state) override {
    std::vector<at::Tensor> sums;
    if (state == GradientState::kLocal && has_peers()) {
      sums = aggregate(replica, gradients);
      gradients = sums;
    }
    update(replica, gradients);
  }

  std::vector<at::Tensor> aggregate(int replica, std::span<const at::Tensor> gradients) override {
    return sum(replica, gradients, {}).first;
  }

  bool can_sum(at::ScalarType, std::int64_t) const override { return workers_ != nullptr; }

  at::Tensor apply_with(int replica, std::span<const at::Tensor> gradients,
                        const at::Tensor& value) override {
    const auto [sums, sum_of_values] = sum(replica, gradients, value);
    update(replica, sums);
    return sum_of_values;
  }

  std::pair<std::vector<at::Tensor>, at::Tensor> aggregate_with(
      int replica, std::span<const at::Tensor> gradients, const at::Tensor& value) override {
    return sum(replica, gradients, value);
  }

  bool can_be_captured() const override { return !has_peers(); }
  const WorkerGroup* workers() const override { return workers_.get(); }

 private:
  /// `value`: undefined: none.
  std::pair<std::vector<at::Tensor>, at::Tensor> sum(int replica,
                                                     std::span<const at::Tensor> gradients,
                                                     const at::Tensor& value) const {
    const at::NoGradGuard no_grad;
    const comm::PhaseScope communication(current_step_clock(), comm::StepPhase::kCommunication);
    const comm::PurposeScope purpose(progress_of(replica), purpose_);
    std::vector<at::Tensor> like;
    for (const variables::Variable& variable : state_->variables())
      like.push_back(variables::in_memory_order(variable.component(replica).detach(),
                                                variable.memory_format()));
    comm::Communicator& communicator = *communicators_[static_cast<std::size_t>(replica)];
    if (!value.defined()) return {communicator.sum_present(gradients, like), at::Tensor()};
    std::vector<at::Tensor> own(gradients.begin(), gradients.end());
    own.push_back(value);
    like.push_back(value);
    std::vector<at::Tensor> sums = communicator.sum_present(own, like);
    at::Tensor of_values = std::move(sums.back());
    sums.pop_back();
    return {std::move(sums), std::move(of_values)};
  }

  void update(int replica, std::span<const at::Tensor> gradients) {
    const at::NoGradGuard no_grad;
    const std::vector<bool> known = present(gradients);
    {
      const at::AutoDispatchBelowADInplaceOrView
          below;  // versions are bumped by hand, see mark_updated
      for (const optim::UpdateRun& run : state_->runs(known))
        state_->apply_whole(replica, run, gradients);
    }
    mark_updated(*state_, known, replica);
    // All replicas of this process read the steps in `runs`; replica 0 advances them when all have
    // read. Other processes have their own.
    if (group_->world_size() > 1) group_->barrier(replica);
    if (replica == 0) state_->advance(known);
    if (group_->world_size() > 1) group_->barrier(replica);
  }

  /// The progress, for the replica that communicates for its process; null for others.
  comm::StepProgress* progress_of(int replica) const {
    return replica == 0 && workers_ ? &workers_->communicator->progress() : nullptr;
  }
  // In this process or in others.
  bool has_peers() const { return communicators_.front()->world_size() > 1; }

  const std::shared_ptr<comm::LocalGroup> group_;
  const std::vector<comm::Communicator*> communicators_;  // [replica]
  const std::shared_ptr<optim::OptimizerState> state_;
  const std::shared_ptr<const WorkerGroup> workers_;  // null: a single process
  const comm::CallPurpose purpose_;
};

// Gradient, parameter and two slots of this many elements stay in the second-level cache together.
constexpr std::int64_t kBlock = 32 * 1024;

/// The runs that `replica` updates alone, if runs cannot be divided: those whose middle is in its
/// shard of all elements.
std::vector<optim::UpdateRun> whole_runs(const std::vector<optim::UpdateRun>& runs, int replica,
                                         int replicas) {
  std::int64_t total = 0;
  for (const optim::UpdateRun& run : runs) total += run.end - run.begin;
  std::vector<optim::UpdateRun> own;
  std::int64_t twice_before = 0;
  for (const optim::UpdateRun& run : runs) {
    const std::int64_t twice_middle = twice_before + run.end - run.begin;
    if (total > 0 && twice_middle * replicas / (2 * total) == replica) own.push_back(run);
    twice_before += 2 * (run.end - run.begin);
  }
  return own;
}

class ShardedSynchronizer final : public GradientSynchronizer {
 public:
  explicit ShardedSynchronizer(const SynchronizerContext& context)
      : group_(context.group),
        state_(context.state),
        of_replicas_(group_->world_size()),
        scratch_(group_->world_size()) {}

  void apply(int replica, std::span<const at::Tensor> gradients, GradientState state) override {
    const at::NoGradGuard no_grad;
    const at::AutoDispatchBelowADInplaceOrView
        below;  // versions are bumped by hand, see mark_updated
    const std::string_view call =
        state == GradientState::kLocal ? "apply_gradients" : "apply_gradients (aggregated)";
    std::vector<bool> known;
    group_->exchange(replica, {.name = call}, gradients, [&] {
      known = known_anywhere();
      const comm::PhaseScope update(group_->clock(replica), comm::StepPhase::kUpdate);
      const std::vector<optim::UpdateRun> runs = state_->runs(known);
      if (state_->rule().needs_whole_variables()) {
        for (const optim::UpdateRun& run : whole_runs(runs, replica, group_->world_size()))
          apply_block(replica, run, {run.begin, run.end}, state);
      } else {
        for (const optim::UpdateRun& run : runs) apply_shard(replica, run, state);
      }
    });
    mark_updated(*state_, known, replica);
    // The others read it only after the next barrier.
    if (replica == 0) state_->advance(known);
  }

  std::vector<at::Tensor> aggregate(int replica, std::span<const at::Tensor> gradients) override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> sums(gradients.size());
    group_->exchange(replica, {.name = "aggregate"}, gradients, [&] {
      for (std::size_t i = 0; i < sums.size(); ++i) {
        sums[i] = comm::combine_by_tree(parts_of(replica, i, GradientState::kLocal),
                                        comm::ReduceOp::kSum);
      }
    });
    return sums;
  }

 private:
  std::vector<bool> known_anywhere() const {
    std::vector<bool> known(state_->variables().size(), false);
    for (int rank = 0; rank < group_->world_size(); ++rank)
      merge_present(known, group_->published(rank));
    return known;
  }

  void apply_shard(int replica, const optim::UpdateRun& run, GradientState state) {
    const ElementRange shard = element_shard({run.begin, run.end}, replica, group_->world_size());
    for (std::int64_t at = shard.begin; at < shard.end; at += kBlock)
      apply_block(replica, run, {at, std::min(at + kBlock, shard.end)}, state);
  }

  void apply_block(int replica, const optim::UpdateRun& run, ElementRange block,
                   GradientState state) {
    at::Tensor sum = part_of_one_gradient(replica, run, block, state);
    if (!sum.defined()) {
      sum = scratch(replica, block.end - block.begin, state_->storages()[run.storage]->dtype());
      add_block(replica, run, block, sum, state);
    }
    state_->apply(replica, run, block.begin, block.end, sum);
  }

  /// The gradient of `block` itself, if there is nothing to add: it is inside of a variable for
  /// which one replica alone has a gradient. Undefined otherwise.
  at::Tensor part_of_one_gradient(int replica, const optim::UpdateRun& run, ElementRange block,
                                  GradientState state) const {
    for (std::size_t i = run.first; i < run.last; ++i) {
      const variables::Variable& variable = state_->variables()[i];
      if (block.begin < variable.offset() || block.end > variable.offset() + variable.numel())
        continue;
      const std::vector<at::Tensor> parts = parts_of(replica, i, state);
      if (std::ranges::count_if(parts, &at::Tensor::defined) != 1) return {};
      const auto only = std::ranges::find_if(parts, &at::Tensor::defined);
      if (only->scalar_type() != variable.dtype() || !only->is_contiguous()) return {};
      return only->view(-1).narrow(0, block.begin - variable.offset(), block.end - block.begin);
    }
    return {};
  }

  void add_block(int replica, const optim::UpdateRun& run, ElementRange block,
                 const at::Tensor& sum, GradientState state) {
    const comm::PhaseScope communication(group_->clock(replica), comm::StepPhase::kCommunication);
    for (std::size_t i = run.first; i < run.last; ++i) add_variable(replica, i, block, sum, state);
  }

  /// Writes the sum of the part of variable `i` in `block` to its position in `sum`, and zeros to
  /// the gap after it.
  void add_variable(int replica, std::size_t i, ElementRange block, const at::Tensor& sum,
                    GradientState state) {
    const variables::Variable& variable = state_->variables()[i];
    const std::int64_t begin = std::max(variable.offset(), block.begin);
    const std::int64_t end = std::min(variable.offset() + variable.numel(), block.end);
    const std::int64_t next = i + 1 < state_->variables().size() &&
                                      state_->variables()[i + 1].storage() == variable.storage()
                                  ? state_->variables()[i + 1].offset()
                                  : block.end;
    if (begin < end) {
      const std::int64_t in_variable = begin - variable.offset();
      comm::add_by_tree(parts_of(replica, i, state),
                        state == GradientState::kAggregated ? of_one_ : of_replicas_, in_variable,
                        in_variable + end - begin, sum, begin - block.begin);
    }
    const std::int64_t gap_begin = std::max(variable.offset() + variable.numel(), block.begin);
    const std::int64_t gap_end = std::min(next, block.end);
    if (gap_begin < gap_end) sum.narrow(0, gap_begin - block.begin, gap_end - gap_begin).zero_();
  }

  std::vector<at::Tensor> parts_of(int replica, std::size_t i, GradientState state) const {
    if (state == GradientState::kAggregated) return {group_->published(replica)[i]};
    std::vector<at::Tensor> parts;
    for (int rank = 0; rank < group_->world_size(); ++rank)
      parts.push_back(group_->published(rank)[i]);
    return parts;
  }

  /// The replica's own memory for a block's sum, reused if it is large enough and of this dtype.
  at::Tensor scratch(int replica, std::int64_t size, at::ScalarType dtype) {
    at::Tensor& tensor = scratch_[static_cast<std::size_t>(replica)];
    if (!tensor.defined() || tensor.numel() < size || tensor.scalar_type() != dtype) {
      tensor = at::empty({size}, at::TensorOptions().dtype(dtype));
    }
    return tensor.numel() == size ? tensor : tensor.narrow(0, 0, size);
  }

  const std::shared_ptr<comm::LocalGroup> group_;
  const std::shared_ptr<optim::OptimizerState> state_;
  const comm::ReductionTree of_replicas_;
  const comm::ReductionTree of_one_{1};
  std::vector<at::Tensor> scratch_;  // [replica]
};

}  // namespace

std::unique_ptr<GradientSynchronizer> make_replica_synchronizer(
    const SynchronizerContext& context) {
  return std::make_unique<ReplicaSynchronizer>(context);
}

std::unique_ptr<GradientSynchronizer> make_sharded_synchronizer(
    const SynchronizerContext& context) {
  check_argument(
      context.workers == nullptr || context.workers->count() == 1,
      "make_sharded_synchronizer adds the gradients of one process, and the strategy has "
      "workers: give it make_worker_synchronizer.");
  return std::make_unique<ShardedSynchronizer>(context);
}

}  // namespace brigade::distribute
