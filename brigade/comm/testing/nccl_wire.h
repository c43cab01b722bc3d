#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/comm/nccl/nccl_communicator.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::comm {

/// For tests: carries tensors between fake GPUs. It keeps, for each collective by its number, what
/// each rank passed in. Tests can make it fail or hang.
struct Wire {
  struct Call {
    int came = 0;
    ReduceOp op = ReduceOp::kSum;
    std::map<int, std::vector<at::Tensor>> parts;  // by rank; of a broadcast its root's

    /// Adds in the tensors' own dtype and not by the tree, as NCCL may.
    at::Tensor result(std::size_t i) const {
      at::Tensor value = parts.rbegin()->second[i].clone();
      for (auto part = std::next(parts.rbegin()); part != parts.rend(); ++part) {
        const at::Tensor& other = part->second[i];
        if (op == ReduceOp::kMax || op == ReduceOp::kMin) {
          value = combine_by_tree(std::vector{value, other}, op);
        } else {
          value.add_(other);
        }
      }
      if (op == ReduceOp::kMean) value.div_(static_cast<double>(came));
      return value;
    }
  };
  concurrency::Mutex mutex;
  std::map<int, Call> calls;
  std::atomic<int> collectives = 0;
  std::atomic<int> aborts = 0;
  std::atomic<int> closed = 0;
  std::atomic<int> failing_rank = -1;
  std::atomic<int> refusing_rank = -1;  // whose calls fail before they start
  std::atomic<bool> stands_still = false;
  std::atomic<bool> is_busy = false;  // the GPUs do not get to what is queued
  std::atomic<bool> closes = true;
};

/// A fake of NCCL for `NcclGroup`, on CPU tensors.
class WireClique final : public NcclClique {
 public:
  WireClique(Wire& wire, const NcclCliqueOptions& options) : wire_(wire), options_(options) {
    ranks_.resize(options.cards.size());
  }

  int local_size() const override { return static_cast<int>(ranks_.size()); }
  bool takes(const CollectiveCall& call) const override {
    return !call.tensors.empty() && std::ranges::none_of(call.tensors, [](const auto& tensor) {
      return tensor.scalar_type() == at::kBool;
    });
  }
  void start(int local_rank, const CollectiveCall& collective) override {
    const int number = options_.first_rank + local_rank;
    if (wire_.refusing_rank == number) throw Error(ErrorCode::kUnavailable, "unhandled cuda error");
    const concurrency::MutexLock lock(wire_.mutex);
    ++wire_.collectives;
    Rank& rank = ranks_[local_rank];
    rank.tensors.clear();
    for (const at::Tensor& tensor : collective.tensors) rank.tensors.push_back(tensor.detach());
    Wire::Call& call = wire_.calls[++rank.number];
    call.op = collective.op;
    if (!collective.traits().has_root || number == collective.root) {
      auto& part = call.parts[number];
      for (const at::Tensor& tensor : collective.tensors) part.push_back(tensor.detach().clone());
    }
    ++call.came;
  }
  void start_closing() override { is_closing_ = true; }
  NcclStatus status(int local_rank) override {
    using State = NcclStatus::State;
    if (is_closing_) {
      if (wire_.closes) ++wire_.closed;
      return {wire_.closes ? State::kDone : State::kUnderWay};
    }
    Rank& rank = ranks_[local_rank];
    if (rank.tensors.empty()) return {State::kDone};
    if (wire_.failing_rank == options_.first_rank + local_rank)
      return {State::kFailed, "remote process exited or there was a network error"};
    const concurrency::MutexLock lock(wire_.mutex);
    const Wire::Call& call = wire_.calls[rank.number];
    if (wire_.stands_still || call.came < options_.world_size) return {State::kUnderWay};
    if (wire_.is_busy) return {State::kQueued};
    for (std::size_t i = 0; i < rank.tensors.size(); ++i) rank.tensors[i].copy_(call.result(i));
    rank.tensors.clear();
    return {State::kDone};
  }
  void abort() noexcept override { ++wire_.aborts; }

 private:
  struct Rank {
    int number = 0;
    std::vector<at::Tensor> tensors;
  };

  Wire& wire_;
  const NcclCliqueOptions options_;
  std::vector<Rank> ranks_;
  bool is_closing_ = false;
};

/// The fake GPUs of one process. Each collective is complete when it returns.
class PromptWire final : public NcclRunner {
 public:
  PromptWire(Wire& wire, int world_size)
      : clique_(wire, {.world_size = world_size,
                       .cards = std::vector<c10::Device>(static_cast<std::size_t>(world_size),
                                                         c10::Device(c10::kCPU))}) {}

  bool takes(const CollectiveCall& call) const override { return clique_.takes(call); }
  void run(int local_rank, const CollectiveCall& call) override {
    clique_.start(local_rank, call);
    while (clique_.status(local_rank).state == NcclStatus::State::kUnderWay)
      std::this_thread::yield();
  }
  void abandon(int, const std::string&) noexcept override { clique_.abort(); }

 private:
  WireClique clique_;
};

class WireLibrary final : public NcclLibrary {
 public:
  explicit WireLibrary(Wire& wire) : wire_(wire) {}
  std::string card_id(c10::Device) const override { return base::str_cat("card ", cards_++); }
  std::string make_id() const override { return "wire"; }
  std::unique_ptr<NcclClique> start_joining(const NcclCliqueOptions& options) const override {
    return std::make_unique<WireClique>(wire_, options);
  }

 private:
  Wire& wire_;
  mutable std::atomic<int> cards_ = 0;
};

}  // namespace brigade::comm
