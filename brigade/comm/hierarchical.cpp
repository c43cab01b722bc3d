#include "brigade/comm/hierarchical.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/local/reduce_kernel.h"

namespace brigade::comm {

namespace {

/// The process of a replica, and its rank there.
struct ReplicaLocation {
  int process = 0;
  int local_rank = 0;
};

class HierarchicalCommunicator final : public Communicator {
 public:
  HierarchicalCommunicator(std::shared_ptr<LocalGroup> group, std::unique_ptr<Communicator> local,
                           std::shared_ptr<ProcessCommunicator> across, ProcessLayout layout)
      : group_(std::move(group)),
        local_(std::move(local)),
        across_(std::move(across)),
        layout_(std::move(layout)),
        blocks_(layout_.replicas),
        subtrees_(blocks_.own_parts_of(layout_.process)) {}

  int rank() const override { return layout_.first_replica() + local_->rank(); }
  int world_size() const override { return layout_.num_replicas(); }
  void finish() override { local_->finish(); }

 private:
  std::vector<at::Tensor> execute(const CollectiveCall& call) override {
    if (const auto problem = call.find_problem(world_size()))
      group_->fail(local_->rank(), Error(ErrorCode::kInvalidArgument, *problem));
    switch (call.kind) {
      case Collective::kAllReduce:
        reduce(call);
        return {};
      case Collective::kBroadcast:
        copy_from_root(call);
        return {};
      case Collective::kAllGather:
        return gather(call);
      case Collective::kBarrier:
        local_->barrier();
        run_on_leader([&] { across_->barrier(); });
        local_->barrier();
        return {};
      default:
        throw Error(ErrorCode::kUnimplemented, call.name(), " is not a call between replicas.");
    }
  }

  void reduce(const CollectiveCall& call) {
    // The mean is one division of the global sum, as in a single process.
    const ReduceOp part = call.op == ReduceOp::kMean ? ReduceOp::kSum : call.op;
    // A process's sum is only an intermediate value: half and bfloat16 stay in float32.
    const AccumulationTensors sums(call.tensors, call.op);
    if (part != ReduceOp::kSum) {
      local_->all_reduce(sums.tensors(), part)->wait();
      run_on_leader([&] { across_->all_reduce(sums.tensors(), part)->wait(); });
    } else if (subtrees_.size() == 1) {
      local_->all_reduce(sums.tensors(), part)->wait();
      run_on_leader([&] { add_across({sums.tensors()}, call.op); });
    } else {
      add_subtrees(sums.tensors(), call.op);
    }
    local_->broadcast(sums.tensors(), 0)->wait();
    sums.copy_back();
  }

  /// The first replica of each subtree gets the subtree's sums; local rank 0 sends them all.
  void add_subtrees(std::span<const at::Tensor> tensors, ReduceOp op) {
    all_reduce_blocks(*group_, local_->rank(), tensors, ReduceOp::kSum, subtrees_);
    group_->exchange(local_->rank(), {.name = "all_reduce(sum) of subtrees"}, tensors, [&] {
      std::vector<std::span<const at::Tensor>> sets;
      for (const LeafRange& subtree : subtrees_) sets.push_back(group_->published(subtree.begin));
      run_on_leader([&] { add_across(sets, op); });
    });
  }

  /// Writes the sums over all processes, or the means, to the first set.
  void add_across(const std::vector<std::span<const at::Tensor>>& sets, ReduceOp op) {
    std::vector<at::Tensor> sent;
    for (std::size_t set = 0; set < blocks_.most_parts(); ++set) {
      const auto& of_set = sets[set < sets.size() ? set : 0];
      sent.insert(sent.end(), of_set.begin(), of_set.end());
    }
    across_->all_reduce_subtrees(sent, blocks_);
    if (op != ReduceOp::kMean) return;
    for (const at::Tensor& tensor : sets.front())
      tensor.detach().div_(static_cast<double>(world_size()));
  }

  void copy_from_root(const CollectiveCall& call) {
    const ReplicaLocation location = location_of(call.root);
    const bool is_root_local = location.process == layout_.process;
    if (is_root_local) local_->broadcast(call.tensors, location.local_rank)->wait();
    run_on_leader([&] { across_->broadcast(call.tensors, location.process)->wait(); });
    if (!is_root_local) local_->broadcast(call.tensors, 0)->wait();
  }

  std::vector<at::Tensor> gather(const CollectiveCall& call) {
    const at::Tensor& tensor = call.tensors.front();
    std::vector<at::Tensor> gathered = local_->all_gather(tensor);
    run_on_leader([&] { gathered = gather_across(gathered); });
    copy_from_leader(gathered, tensor.device());
    return gathered;
  }

  /// Runs `exchange` on local rank 0's thread. If it fails, releases the other replicas of this
  /// process, which wait for its result.
  template <class Exchange>
  void run_on_leader(const Exchange& exchange) {
    if (local_->rank() != 0) return;
    const PhaseScope communication(group_->clock(0), StepPhase::kCommunication);
    try {
      exchange();
    } catch (const std::exception& error) {
      group_->abort(0, std::string(base::without_stack_trace(error.what())));
      throw;
    }
  }

  ReplicaLocation location_of(int replica) const {
    ReplicaLocation location{.local_rank = replica};
    while (location.local_rank >= layout_.replicas[location.process])
      location.local_rank -= layout_.replicas[location.process++];
    return location;
  }

  /// Gathers all replicas' tensors from this process's. Each round gathers one replica per process.
  std::vector<at::Tensor> gather_across(const std::vector<at::Tensor>& mine) {
    const int rounds = *std::max_element(layout_.replicas.begin(), layout_.replicas.end());
    std::vector<std::vector<at::Tensor>> by_round;
    for (int round = 0; round < rounds; ++round) {
      const bool has_one = round < static_cast<int>(mine.size());
      by_round.push_back(
          across_->all_gather(has_one ? mine[round] : at::empty({0}, mine[0].options())));
    }
    std::vector<at::Tensor> all;
    for (std::size_t process = 0; process < layout_.replicas.size(); ++process) {
      for (int replica = 0; replica < layout_.replicas[process]; ++replica)
        all.push_back(by_round[replica][process]);
    }
    return all;
  }

  /// Local rank 0 has the result; the others copy it.
  void copy_from_leader(std::vector<at::Tensor>& gathered, c10::Device device) {
    const bool is_leader = local_->rank() == 0;
    const std::span<const at::Tensor> shown =
        is_leader ? std::span<const at::Tensor>(gathered) : std::span<const at::Tensor>();
    std::vector<at::Tensor> copies;
    group_->exchange(local_->rank(), {.name = "all_gather across processes"}, shown, [&] {
      if (is_leader) return;
      for (const at::Tensor& tensor : group_->published(0))
        copies.push_back(tensor.to(tensor.options().device(device), /*non_blocking=*/false,
                                   /*copy=*/true));
    });
    if (!is_leader) gathered = std::move(copies);
  }

  const std::shared_ptr<LocalGroup> group_;
  const std::unique_ptr<Communicator> local_;
  const std::shared_ptr<ProcessCommunicator> across_;
  const ProcessLayout layout_;
  const ReductionBlocks blocks_;
  const std::vector<LeafRange> subtrees_;  // this process's, as ranges of local ranks
};

void check_layout(const LocalGroup& group, const Communicator& across,
                  const ProcessLayout& layout) {
  const int processes = static_cast<int>(layout.replicas.size());
  check_argument(layout.process >= 0 && layout.process < processes, "Process ", layout.process,
                 " does not exist: there are ", processes, " processes.");
  for (const int count : layout.replicas) {
    check_argument(count >= 1, "A process has at least one replica, not ", count, ".");
  }
  check_argument(layout.replicas[layout.process] == group.world_size(), "The layout gives process ",
                 layout.process, " ", layout.replicas[layout.process], " replicas, but it has ",
                 group.world_size(), ".");
  check_argument(across.world_size() == processes && across.rank() == layout.process,
                 "The communicator between processes is rank ", across.rank(), " of ",
                 across.world_size(), " where process ", layout.process, " of ", processes,
                 " was expected.");
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_hierarchical_communicators(
    std::shared_ptr<LocalGroup> group, std::vector<std::unique_ptr<Communicator>> local,
    std::shared_ptr<ProcessCommunicator> across, const ProcessLayout& layout) {
  if (layout.replicas.size() == 1) return local;
  check_layout(*group, *across, layout);
  std::vector<std::unique_ptr<Communicator>> all;
  for (auto& one : local) {
    all.push_back(
        std::make_unique<HierarchicalCommunicator>(group, std::move(one), across, layout));
  }
  return all;
}

namespace {

/// The sum of some replicas' values in the accumulation dtype; -0.0, to which any value can be
/// added without changing it, if there is none.
at::Tensor sum_of(std::span<const at::Tensor> values, const at::Tensor& like) {
  std::vector<at::Tensor> here;
  for (const at::Tensor& value : values) {
    here.push_back(value.defined() ? to_accumulation_dtype(value.detach().to(like.device()))
                                   : value);
  }
  const at::Tensor sum = combine_by_tree(here, ReduceOp::kSum);
  if (sum.defined()) return sum;
  return at::full_like(like, -0.0, like.options().dtype(accumulation_dtype(like.scalar_type())));
}

}  // namespace

std::vector<at::Tensor> sum_over_replicas(ProcessCommunicator* processes,
                                          const ProcessLayout& layout,
                                          std::span<const std::vector<at::Tensor>> values,
                                          std::span<const at::Tensor> like) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> sets;
  if (processes == nullptr) {
    for (std::size_t i = 0; i < values.size(); ++i) sets.push_back(sum_of(values[i], like[i]));
    return sets;
  }
  const ReductionBlocks blocks(layout.replicas);
  const std::vector<LeafRange> subtrees = blocks.own_parts_of(layout.process);
  for (const LeafRange& subtree : subtrees) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      sets.push_back(sum_of(std::span(values[i]).subspan(static_cast<std::size_t>(subtree.begin),
                                                         static_cast<std::size_t>(subtree.size())),
                            like[i]));
    }
  }
  for (std::size_t set = subtrees.size(); set < blocks.most_parts(); ++set) {
    for (std::size_t i = 0; i < values.size(); ++i) sets.push_back(sets[i]);
  }
  processes->all_reduce_subtrees(sets, blocks);
  sets.resize(values.size());
  return sets;
}

}  // namespace brigade::comm
