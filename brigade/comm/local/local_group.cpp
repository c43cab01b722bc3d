#include "brigade/comm/local/local_group.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "brigade/base/strings.h"
#include "brigade/comm/local/reduce_kernel.h"

namespace brigade::comm {

namespace {

void add_once(std::vector<c10::Device>& devices, c10::Device device) {
  if (std::ranges::find(devices, device) == devices.end()) devices.push_back(device);
}

bool runs_flat(const at::Tensor& tensor, ReduceOp op) {
  const bool floating = tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
  return tensor.is_cpu() && floating && tensor.is_contiguous() &&
         (op == ReduceOp::kSum || op == ReduceOp::kMean);
}

std::vector<at::Tensor> published_by(const LocalGroup& group, LeafRange ranks, std::size_t index) {
  std::vector<at::Tensor> all;
  for (int rank = ranks.begin; rank < ranks.end; ++rank)
    all.push_back(group.published(rank)[index]);
  return all;
}

LeafRange all_ranks(const LocalGroup& group) {
  return {0, group.world_size()};
}

/// If one rank finds that tensors differ, every rank does: all throw, and none is left waiting.
void check_same_tensors(const LocalGroup& group, int rank, const CollectiveCall& call) {
  const bool shapes_may_differ = call.traits().gathers;
  const std::span<const at::Tensor> mine = call.tensors;
  for (int other = 0; other < group.world_size(); ++other) {
    const auto theirs = group.published(other);
    if (theirs.size() != mine.size()) {
      throw Error(ErrorCode::kInvalidArgument, call.name(), ": rank ", other, " passed ",
                  theirs.size(), " tensors and rank ", rank, " ", mine.size(),
                  "; every rank must pass the same number.");
    }
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const bool agrees = theirs[i].scalar_type() == mine[i].scalar_type() &&
                          (shapes_may_differ || theirs[i].sizes() == mine[i].sizes());
      if (agrees) continue;
      throw Error(ErrorCode::kInvalidArgument, call.name(), ": tensor ", i, " is ",
                  shape_of(theirs[i]), " on rank ", other, " and ", shape_of(mine[i]), " on rank ",
                  rank,
                  shapes_may_differ ? "; dtypes must be the same."
                                    : "; shapes and dtypes must be the same.");
    }
  }
}

/// Shard `shard` of `shards` of the elements.
struct Shard {
  int number = 0;
  int count = 1;
};

void reduce_shard(const std::vector<at::Tensor>& all, ReduceOp op, Shard shard) {
  const std::int64_t count = all.front().numel();
  const std::int64_t begin = count * shard.number / shard.count;
  const std::int64_t end = count * (shard.number + 1) / shard.count;
  constexpr std::int64_t kBlock = 32 * 1024;
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t stop = std::min(at + kBlock, end);
    at::Tensor sum = at::empty({stop - at}, all.front().options());
    add_by_tree(all, at, stop, sum, 0);
    if (op == ReduceOp::kMean) sum.div_(static_cast<double>(all.size()));
    for (const at::Tensor& tensor : all)
      tensor.detach().view(-1).narrow(0, at, stop - at).copy_(sum);
  }
}

/// The part of rank `rank`, which may be outside of the block, in the reduction of a block's
/// tensors.
void reduce_one(const LocalGroup& group, int rank, LeafRange block, std::size_t index,
                ReduceOp op) {
  const std::vector<at::Tensor> all = published_by(group, block, index);
  const bool flat =
      std::all_of(all.begin(), all.end(), [&](const auto& t) { return runs_flat(t, op); });
  if (flat) return reduce_shard(all, op, {.number = rank, .count = group.world_size()});
  // One rank reduces the whole of a tensor that is not flat; tensors are assigned round-robin.
  if (block.begin + static_cast<int>(index) % block.size() != rank) return;
  std::vector<at::Tensor> here;
  const c10::Device device = group.published(rank)[index].device();
  for (const at::Tensor& tensor : all) here.push_back(tensor.detach().to(device));
  const at::Tensor result = combine_by_tree(here, op);
  for (const at::Tensor& tensor : all) tensor.copy_(result);
}

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<LocalGroup> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int world_size() const override { return group_->world_size(); }

 private:
  std::vector<at::Tensor> execute(const CollectiveCall& call) override {
    if (call.kind == Collective::kBarrier) {
      group_->barrier(rank_);
      return {};
    }
    if (const auto problem = call.find_problem(world_size()))
      group_->fail(rank_, Error(ErrorCode::kInvalidArgument, *problem));
    std::vector<at::Tensor> gathered;
    group_->exchange(rank_, {.name = call.name(), .root = call.root}, call.tensors, [&] {
      check_same_tensors(*group_, rank_, call);
      gathered = combine(call);
    });
    return gathered;
  }

  /// What a rank does while it can read the tensors of all.
  std::vector<at::Tensor> combine(const CollectiveCall& call) {
    switch (call.kind) {
      case Collective::kAllReduce:
        for (std::size_t i = 0; i < call.tensors.size(); ++i)
          reduce_one(*group_, rank_, all_ranks(*group_), i, call.op);
        return {};
      case Collective::kBroadcast:
        for (std::size_t i = 0; rank_ != call.root && i < call.tensors.size(); ++i)
          call.tensors[i].copy_(group_->published(call.root)[i]);
        return {};
      case Collective::kAllGather:
        return copies_of_all(call.tensors.front().device());
      default:
        throw Error(ErrorCode::kUnimplemented, call.name(), " is not a call between threads.");
    }
  }

  std::vector<at::Tensor> copies_of_all(c10::Device device) const {
    std::vector<at::Tensor> copies;
    for (const at::Tensor& part : published_by(*group_, all_ranks(*group_), 0)) {
      copies.push_back(part.detach().to(part.options().device(device), /*non_blocking=*/false,
                                        /*copy=*/true));
    }
    return copies;
  }

  const std::shared_ptr<LocalGroup> group_;
  const int rank_;
};

}  // namespace

LocalGroup::LocalGroup(int world_size, LocalGroupOptions options)
    : slots_(options.slots),
      barrier_({.parties = world_size,
                .timeout = options.timeout,
                .spin = options.spin,
                .party_name = "replica"}),
      published_(world_size),
      devices_(world_size),
      ready_(world_size),
      finished_(world_size),
      calls_(world_size),
      call_counts_(world_size, 0),
      clocks_(world_size, nullptr) {}

void LocalGroup::publish(int rank, AnnouncedCall call, std::span<const at::Tensor> tensors) {
  // After a failure others may still wait for the fences of this rank.
  if (barrier_.has_failed()) wait_for_all(rank);
  published_[rank].assign(tensors.begin(), tensors.end());
  devices_[rank].clear();
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && !tensor.is_cpu()) add_once(devices_[rank], tensor.device());
  }
  announce(rank, call);
  record(rank, ready_[rank], devices_[rank]);
  wait_for_all(rank);
  check_same_call(rank);
  // On every card, because a copy from another card is queued on a stream of that card.
  wait_for_others(rank, ready_, devices_of_all());
}

void LocalGroup::withdraw(int rank) {
  // Also by ranks that have no tensors, since they may have read others'.
  record(rank, finished_[rank], devices_of_all());
  wait_for_all(rank);
  published_[rank].clear();
  wait_for_others(rank, finished_, devices_[rank]);
}

void LocalGroup::withdraw_after_failure(int rank) noexcept {
  // Others may still read what this rank has published. Their failure is reported by the error that
  // this rank throws.
  try {
    withdraw(rank);
  } catch (const std::exception&) {
  }
}

void LocalGroup::abort(int rank, const std::string& reason) {
  if (world_size() == 1) return;
  barrier_.abort(rank, reason);
  if (slots_) slots_->abort(reason);
}

void LocalGroup::barrier(int rank) {
  announce(rank, {.name = "barrier"});
  wait_for_all(rank);
  check_same_call(rank);
}

void LocalGroup::wait_for_all(int rank) {
  const PhaseScope waiting(clock(rank), StepPhase::kWait);
  const concurrency::ExecutionSlots::Yield yield(slots_.get(), rank);
  barrier_.arrive_and_wait(rank);
}

void LocalGroup::announce(int rank, AnnouncedCall call) {
  calls_[rank][++call_counts_[rank] % 2] = call;
}

void LocalGroup::check_same_call(int rank) {
  const std::size_t parity = call_counts_[rank] % 2;
  const AnnouncedCall& mine = calls_[rank][parity];
  for (int other = 0; other < world_size(); ++other) {
    const AnnouncedCall& theirs = calls_[other][parity];
    if (theirs == mine) continue;
    // Every rank sees some other rank that differs, so all fail and none reads.
    fail(rank,
         Error(ErrorCode::kFailedPrecondition, "replica ", rank, " is in ", mine.name, " (root ",
               mine.root, ") while replica ", other, " is in ", theirs.name, " (root ", theirs.root,
               "): every replica must make the same collective calls, in the same order."));
  }
}

void LocalGroup::reset() {
  barrier_.reset();
  for (std::vector<at::Tensor>& tensors : published_) tensors.clear();
  call_counts_.assign(call_counts_.size(), 0);
}

LocalGroup::Devices LocalGroup::devices_of_all() const {
  Devices all;
  for (const Devices& of_rank : devices_) {
    for (const c10::Device device : of_rank) add_once(all, device);
  }
  return all;
}

void LocalGroup::record(int rank, device::StreamFence& fence, const Devices& devices) {
  try {
    fence.record(devices);
  } catch (const std::exception& error) {  // of the driver; the others would wait for this rank
    abort(rank, std::string(base::without_stack_trace(error.what())));
    throw;
  }
}

void LocalGroup::wait_for_others(int rank, const std::vector<device::StreamFence>& fences,
                                 const Devices& devices) {
  for (int other = 0; other < world_size(); ++other) {
    if (other == rank) continue;
    for (const c10::Device device : devices) fences[other].wait(device);
  }
}

std::vector<std::unique_ptr<Communicator>> make_local_communicators(
    std::shared_ptr<LocalGroup> group) {
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < group->world_size(); ++rank) {
    communicators.push_back(std::make_unique<LocalCommunicator>(group, rank));
  }
  return communicators;
}

void all_reduce_blocks(LocalGroup& group, int rank, std::span<const at::Tensor> tensors,
                       ReduceOp op, std::span<const LeafRange> blocks) {
  const at::NoGradGuard no_grad;
  const CollectiveCall call{.kind = Collective::kAllReduce, .op = op, .tensors = tensors};
  if (const auto problem = call.find_problem(group.world_size()))
    group.fail(rank, Error(ErrorCode::kInvalidArgument, *problem));
  group.exchange(rank, {.name = call.name()}, tensors, [&] {
    check_same_tensors(group, rank, call);
    for (const LeafRange& block : blocks) {
      if (block.size() == 1) continue;
      for (std::size_t i = 0; i < tensors.size(); ++i) reduce_one(group, rank, block, i, op);
    }
  });
}

}  // namespace brigade::comm
