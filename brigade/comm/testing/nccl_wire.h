#pragma once

#include <ATen/ops/zeros_like.h>

#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/comm/nccl_clique.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::comm {

/// For tests: what carries tensors between made-up cards: by the number of the collective, the sum
/// so far and who has brought its part. Tests let it fail or stand still.
struct Wire {
  struct Meeting {
    int came = 0;
    std::vector<at::Tensor> sums;
  };
  concurrency::Mutex mutex;
  std::map<int, Meeting> meetings;
  std::atomic<int> collectives = 0;
  std::atomic<int> aborts = 0;
  std::atomic<int> closed = 0;
  std::atomic<int> failing_rank = -1;
  std::atomic<bool> stands_still = false;
  std::atomic<bool> closes = true;
};

/// NCCL as far as `NcclGroup` sees it, on CPU tensors.
class WireClique final : public NcclClique {
 public:
  WireClique(Wire& wire, const NcclPlace& place) : wire_(wire), place_(place) {
    ranks_.resize(place.cards.size());
  }

  int local_size() const override { return static_cast<int>(ranks_.size()); }
  bool takes(std::span<const at::Tensor> tensors) const override {
    return !tensors.empty() && tensors.front().scalar_type() != at::kBool;
  }
  void start_all_reduce(int local_rank, std::span<const at::Tensor> tensors, ReduceOp) override {
    meet(ranks_[local_rank], tensors, true);
  }
  void start_broadcast(int local_rank, std::span<const at::Tensor> tensors, int root) override {
    meet(ranks_[local_rank], tensors, place_.first_rank + local_rank == root);
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
    if (wire_.failing_rank == place_.first_rank + local_rank)
      return {State::kFailed, "remote process exited or there was a network error"};
    const concurrency::MutexLock lock(wire_.mutex);
    const Wire::Meeting& meeting = wire_.meetings[rank.number];
    if (wire_.stands_still || meeting.came < place_.world_size) return {State::kUnderWay};
    for (std::size_t i = 0; i < rank.tensors.size(); ++i) rank.tensors[i].copy_(meeting.sums[i]);
    rank.tensors.clear();
    return {State::kDone};
  }
  void abort() noexcept override { ++wire_.aborts; }

 private:
  struct Rank {
    int number = 0;
    std::vector<at::Tensor> tensors;
  };

  void meet(Rank& rank, std::span<const at::Tensor> tensors, bool brings) {
    const concurrency::MutexLock lock(wire_.mutex);
    ++wire_.collectives;
    rank.tensors.assign(tensors.begin(), tensors.end());
    Wire::Meeting& meeting = wire_.meetings[++rank.number];
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (meeting.sums.size() <= i) meeting.sums.push_back(at::zeros_like(tensors[i]));
      if (brings) meeting.sums[i] += tensors[i];
    }
    ++meeting.came;
  }

  Wire& wire_;
  const NcclPlace place_;
  std::vector<Rank> ranks_;
  bool is_closing_ = false;
};

class WireLibrary final : public NcclLibrary {
 public:
  explicit WireLibrary(Wire& wire) : wire_(wire) {}
  std::string card_id(c10::Device) const override { return base::str_cat("card ", cards_++); }
  std::string make_id() const override { return "wire"; }
  std::unique_ptr<NcclClique> start_joining(const NcclPlace& place) const override {
    return std::make_unique<WireClique>(wire_, place);
  }

 private:
  Wire& wire_;
  mutable std::atomic<int> cards_ = 0;
};

}  // namespace brigade::comm
