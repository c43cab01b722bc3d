#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
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
#include "brigade/device/testing/fake_device.h"

namespace brigade::comm {

/// For tests: carries tensors between fake GPUs. It keeps, for each collective by its number, what
/// each rank passed in. Tests can make it fail or hang.
struct Wire {
  struct Call {
    int came = 0;
    ReduceOp op = ReduceOp::kSum;
    std::map<int, std::vector<at::Tensor>> parts = {};  // by rank; of a broadcast its root's
    std::map<int, device::testing::FakeDevice::Mark> marks = {};  // by rank: its parts are complete

    /// Adds in the tensors' own dtype and not by the tree, as NCCL may.
    at::Tensor result(std::size_t i) const {
      at::Tensor value = on_host(parts.rbegin()->second[i]).clone();
      for (auto part = std::next(parts.rbegin()); part != parts.rend(); ++part) {
        const at::Tensor other = on_host(part->second[i]);
        if (op == ReduceOp::kMax || op == ReduceOp::kMin) {
          value = combine_by_tree(std::vector{value, other}, op);
        } else {
          value.add_(other);
        }
      }
      if (op == ReduceOp::kMean) value.div_(static_cast<double>(came));
      return value;
    }
    /// The memory itself, also that of a FakeDevice, for work that runs there.
    static at::Tensor on_host(const at::Tensor& tensor) {
      return at::from_blob(tensor.data_ptr(), tensor.sizes(),
                           at::TensorOptions(tensor.scalar_type()));
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

/// A fake of NCCL, on CPU tensors, whose results come when the rank's status is asked for; and on
/// those of the FakeDevice, on whose streams its work is queued.
class WireClique final : public NcclClique {
 public:
  WireClique(Wire& wire, const NcclCliqueOptions& options)
      : wire_(wire), options_(options), ranks_(options.cards.size()) {}

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
    Rank& rank = ranks_[static_cast<std::size_t>(local_rank)];
    Wire::Call& call = wire_.calls[++rank.started];
    call.op = collective.op;
    std::vector<at::Tensor> tensors;
    for (const at::Tensor& tensor : collective.tensors) tensors.push_back(tensor.detach());
    if (!collective.traits().has_root || number == collective.root) {
      auto& part = call.parts[number];
      for (const at::Tensor& tensor : tensors) part.push_back(tensor.clone());
    }
    if (!tensors.empty() && !tensors.front().is_cpu()) {
      queue_on_card(rank, number, call, tensors);
    } else {
      rank.waiting.push_back({rank.started, std::move(tensors)});
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
    Rank& rank = ranks_[static_cast<std::size_t>(local_rank)];
    if (wire_.failing_rank == options_.first_rank + local_rank && rank.started > rank.finished)
      return {State::kFailed, "remote process exited or there was a network error"};
    const concurrency::MutexLock lock(wire_.mutex);
    finish_waiting(rank);
    if (rank.finished == rank.started) return {State::kDone};
    const bool is_queued = rank.waiting.empty() || wire_.is_busy;
    return {is_queued ? State::kQueued : State::kUnderWay};
  }
  std::uint64_t finished(int local_rank) override {
    const concurrency::MutexLock lock(wire_.mutex);
    Rank& rank = ranks_[static_cast<std::size_t>(local_rank)];
    finish_waiting(rank);
    return static_cast<std::uint64_t>(rank.finished);
  }
  void abort() noexcept override { ++wire_.aborts; }

 private:
  struct Waiting {
    int number = 0;
    std::vector<at::Tensor> tensors = {};
  };
  struct Rank {
    int started = 0;
    std::atomic<int> finished = 0;
    std::deque<Waiting> waiting = {};  // on the host
  };

  /// What all ranks have come to.
  void finish_waiting(Rank& rank) {
    if (is_closing_ || wire_.stands_still || wire_.is_busy) return;
    for (; !rank.waiting.empty(); rank.waiting.pop_front(), ++rank.finished) {
      const Waiting& next = rank.waiting.front();
      const Wire::Call& call = wire_.calls[next.number];
      if (call.came < options_.world_size) return;
      for (std::size_t i = 0; i < next.tensors.size(); ++i) next.tensors[i].copy_(call.result(i));
    }
  }

  /// Work on the current stream that waits for that of the other ranks.
  void queue_on_card(Rank& rank, int number, Wire::Call& call,
                     const std::vector<at::Tensor>& tensors) {
    auto& card = device::testing::FakeDevice::get();
    const auto work = [this, &card, &rank, &call, tensors] {
      TORCH_CHECK(call.came == options_.world_size, "A result is read before all ranks have come.");
      for (const auto& [other, mark] : call.marks) card.run_up_to(mark);
      for (std::size_t i = 0; i < tensors.size(); ++i)
        Wire::Call::on_host(tensors[i]).copy_(call.result(i));
      ++rank.finished;
    };
    call.marks[number] = card.queue_work(work);
  }

  Wire& wire_;
  const NcclCliqueOptions options_;
  std::deque<Rank> ranks_;  // which keeps its elements where they are
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
  void finish(int) override {}
  void throw_if_failed() override {}
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
