#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <sstream>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/completed_work.h"
#include "brigade/comm/local/local_group.h"
#include "brigade/comm/local/reduce_kernel.h"

namespace brigade::comm {

namespace {

std::string_view call_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "all_reduce(sum)";
    case ReduceOp::kMean:
      return "all_reduce(mean)";
    case ReduceOp::kMax:
      return "all_reduce(max)";
    case ReduceOp::kMin:
      return "all_reduce(min)";
  }
  return "all_reduce";
}

std::string shape_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << tensor.sizes();
  return text.str();
}

bool alike(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes();
}

bool runs_flat(const at::Tensor& tensor, ReduceOp op) {
  const bool floating = tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
  return tensor.is_cpu() && floating && tensor.is_contiguous() &&
         (op == ReduceOp::kSum || op == ReduceOp::kMean);
}

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<LocalGroup> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int world_size() const override { return group_->world_size(); }

  std::unique_ptr<Work> all_reduce(std::span<const at::Tensor> tensors, ReduceOp op) override {
    const at::NoGradGuard no_grad;
    check_operation(tensors, op);
    group_->exchange(rank_, {.name = call_of(op)}, tensors, [&] {
      check_agreement("all_reduce", tensors);
      for (std::size_t i = 0; i < tensors.size(); ++i) reduce_one(i, op);
    });
    return std::make_unique<CompletedWork>();
  }

  std::unique_ptr<Work> broadcast(std::span<const at::Tensor> tensors, int root) override {
    const at::NoGradGuard no_grad;
    check_argument(root >= 0 && root < world_size(),
                   base::str_cat("broadcast: root ", root, " is not a rank; ranks are 0 to ",
                                 world_size() - 1, "."));
    group_->exchange(rank_, {.name = "broadcast", .root = root}, tensors, [&] {
      check_agreement("broadcast", tensors);
      if (rank_ == root) return;
      for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(group_->published(root)[i]);
    });
    return std::make_unique<CompletedWork>();
  }

  std::vector<at::Tensor> all_gather(const at::Tensor& tensor) override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> gathered;
    group_->exchange(rank_, {.name = "all_gather"}, {&tensor, 1}, [&] {
      for (int rank = 0; rank < world_size(); ++rank) {
        const at::Tensor& part = group_->published(rank)[0];
        check_argument(
            part.scalar_type() == tensor.scalar_type(),
            base::str_cat("all_gather: rank ", rank, " passed ", shape_of(part), " and rank ",
                          rank_, " ", shape_of(tensor), "; dtypes must be the same."));
        gathered.push_back(part.detach().to(part.options().device(tensor.device()),
                                            /*non_blocking=*/false,
                                            /*copy=*/true));
      }
    });
    return gathered;
  }

  void barrier() override { group_->barrier(rank_); }

 private:
  /// Releases the other ranks before throwing, since they may already wait.
  [[noreturn]] void fail(const std::string& message) {
    group_->abort(rank_, message);
    throw Error(ErrorCode::kInvalidArgument, message);
  }

  void check_operation(std::span<const at::Tensor> tensors, ReduceOp op) {
    if (op != ReduceOp::kMean) return;
    for (const at::Tensor& tensor : tensors) {
      if (!tensor.is_floating_point()) {
        fail(base::str_cat("all_reduce: the mean needs a floating tensor and got ",
                           shape_of(tensor), "; convert it, or use the sum."));
      }
    }
  }

  /// If one rank finds that tensors differ, every rank does: all throw, and none is left waiting.
  void check_agreement(std::string_view what, std::span<const at::Tensor> mine) const {
    for (int rank = 0; rank < world_size(); ++rank) {
      const auto theirs = group_->published(rank);
      if (theirs.size() != mine.size()) {
        throw Error(
            ErrorCode::kInvalidArgument,
            base::str_cat(what, ": rank ", rank, " passed ", theirs.size(), " tensors and rank ",
                          rank_, " ", mine.size(), "; every rank must pass the same number."));
      }
      for (std::size_t i = 0; i < mine.size(); ++i) {
        if (alike(theirs[i], mine[i])) continue;
        throw Error(ErrorCode::kInvalidArgument,
                    base::str_cat(what, ": tensor ", i, " is ", shape_of(theirs[i]), " on rank ",
                                  rank, " and ", shape_of(mine[i]), " on rank ", rank_,
                                  "; shapes and dtypes must be the same."));
      }
    }
  }

  std::vector<at::Tensor> tensors_of_all_ranks(std::size_t index) const {
    std::vector<at::Tensor> all;
    for (int rank = 0; rank < world_size(); ++rank) all.push_back(group_->published(rank)[index]);
    return all;
  }

  void reduce_one(std::size_t index, ReduceOp op) {
    const std::vector<at::Tensor> all = tensors_of_all_ranks(index);
    const bool flat =
        std::all_of(all.begin(), all.end(), [&](const auto& t) { return runs_flat(t, op); });
    if (flat) return reduce_shard(all, op);
    // One rank reduces the whole of a tensor that is not flat; tensors are assigned round-robin.
    if (static_cast<int>(index % world_size()) != rank_) return;
    std::vector<at::Tensor> here;
    for (const at::Tensor& tensor : all) here.push_back(tensor.detach().to(all[rank_].device()));
    const at::Tensor result = combine_in_order(here, op);
    for (const at::Tensor& tensor : all) tensor.copy_(result);
  }

  void reduce_shard(const std::vector<at::Tensor>& all, ReduceOp op) {
    const std::int64_t count = all.front().numel();
    const std::int64_t begin = count * rank_ / world_size();
    const std::int64_t end = count * (rank_ + 1) / world_size();
    constexpr std::int64_t kBlock = 32 * 1024;
    for (std::int64_t at = begin; at < end; at += kBlock) {
      const std::int64_t stop = std::min(at + kBlock, end);
      at::Tensor sum = at::empty({stop - at}, all.front().options());
      add_in_order(all, at, stop, sum, 0);
      if (op == ReduceOp::kMean) sum.div_(static_cast<double>(world_size()));
      for (const at::Tensor& tensor : all)
        tensor.detach().view(-1).narrow(0, at, stop - at).copy_(sum);
    }
  }

  const std::shared_ptr<LocalGroup> group_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_local_communicators(
    std::shared_ptr<LocalGroup> group) {
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < group->world_size(); ++rank) {
    communicators.push_back(std::make_unique<LocalCommunicator>(group, rank));
  }
  return communicators;
}

}  // namespace brigade::comm
