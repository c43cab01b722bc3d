#pragma once

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "brigade/distribute/strategy.h"
#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute::testing {

/// For tests: each replica has a master and reads a copy of it. Counts the refreshes of copies.
class CopiedStorage final : public variables::VariableStorage {
 public:
  CopiedStorage(const variables::FlatLayout& layout, std::span<const c10::Device> devices,
                std::shared_ptr<std::atomic<int>> refreshes)
      : VariableStorage(layout, static_cast<int>(devices.size())),
        refreshes_(std::move(refreshes)) {
    for (const c10::Device device : devices) {
      const auto options = at::TensorOptions().dtype(dtype()).device(device);
      masters_.push_back(at::zeros({size()}, options));
      copies_.push_back(at::zeros({size()}, options));
    }
  }
  const at::Tensor& buffer(int replica) const override { return copies_.at(replica); }
  int masters() const override { return replicas(); }
  const at::Tensor& master(int replica) const override { return masters_.at(replica); }
  bool is_shared() const override { return false; }
  void refresh(int replica) const override {
    ++*refreshes_;
    VariableStorage::refresh(replica);
  }

 private:
  std::vector<at::Tensor> masters_, copies_;  // [replica]
  const std::shared_ptr<std::atomic<int>> refreshes_;
};

class CopiedStorageFactory final : public variables::StorageFactory {
 public:
  explicit CopiedStorageFactory(std::shared_ptr<std::atomic<int>> refreshes)
      : refreshes_(std::move(refreshes)) {}
  std::shared_ptr<variables::VariableStorage> make(
      const variables::FlatLayout& layout, std::span<const c10::Device> devices) const override {
    return std::make_shared<CopiedStorage>(layout, devices, refreshes_);
  }

 private:
  const std::shared_ptr<std::atomic<int>> refreshes_;
};

/// For tests: every replica adds all gradients itself, and updates its own master.
class AddingSynchronizer final : public GradientSynchronizer {
 public:
  explicit AddingSynchronizer(const SynchronizerContext& context)
      : state_(context.state), group_(context.group) {}

  void apply(int replica, std::span<const at::Tensor> gradients, GradientState state) override {
    const at::NoGradGuard no_grad;
    const std::vector<at::Tensor> sums =
        state == GradientState::kLocal
            ? aggregate(replica, gradients)
            : std::vector<at::Tensor>(gradients.begin(), gradients.end());
    const std::vector<bool> known = present(sums);
    for (const optim::UpdateRun& run : state_->runs(known)) state_->apply_whole(replica, run, sums);
    for (const auto& storage : state_->storages()) storage->refresh(replica);
    mark_updated(*state_, known, replica);
    group_->barrier(replica);  // all have read the steps, in `runs`
    if (replica == 0) state_->advance(known);
    group_->barrier(replica);
  }

  std::vector<at::Tensor> aggregate(int replica, std::span<const at::Tensor> gradients) override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> sums(gradients.size());
    group_->exchange(replica, {.name = "aggregate"}, gradients, [&] {
      for (int rank = 0; rank < group_->world_size(); ++rank) {
        for (std::size_t i = 0; i < sums.size(); ++i) {
          const at::Tensor& theirs = group_->published(rank)[i];
          if (theirs.defined()) sums[i] = sums[i].defined() ? sums[i] + theirs : theirs.clone();
        }
      }
    });
    return sums;
  }

 private:
  const std::shared_ptr<optim::OptimizerState> state_;
  const std::shared_ptr<comm::LocalGroup> group_;
};

/// For tests: new threads in each run.
class NewThreadsRunner final : public ReplicaRunner {
 public:
  explicit NewThreadsRunner(std::size_t replicas) : replicas_(static_cast<int>(replicas)) {}
  void run(const std::function<void(int)>& body) override {
    std::vector<std::thread> threads;
    for (int replica = 1; replica < replicas_; ++replica) threads.emplace_back(body, replica);
    body(0);
    for (std::thread& thread : threads) thread.join();
  }

 private:
  const int replicas_;
};

/// For tests: a strategy of which every part is made outside of `distribute`.
class ComposedStrategy : public Strategy {
 public:
  explicit ComposedStrategy(int replicas)
      : ComposedStrategy(replicas, std::make_shared<std::atomic<int>>(0)) {}

  /// How often a replica's copy of the variables was updated.
  int refreshes() const { return *refreshes_; }

 private:
  ComposedStrategy(int replicas, std::shared_ptr<std::atomic<int>> refreshes)
      : Strategy({.name = "composed",
                  .devices = device::resolve_devices(cpus(replicas).devices,
                                                     {.allow_oversubscription = true}),
                  .storage = std::make_shared<CopiedStorageFactory>(refreshes),
                  .synchronizer =
                      [](const SynchronizerContext& context) {
                        return std::make_unique<AddingSynchronizer>(context);
                      },
                  .runner =
                      [](const std::vector<device::Device>& devices, const auto&) {
                        return std::make_unique<NewThreadsRunner>(devices.size());
                      },
                  .timeout = std::chrono::seconds(60)}),
        refreshes_(std::move(refreshes)) {}

  const std::shared_ptr<std::atomic<int>> refreshes_;
};

}  // namespace brigade::distribute::testing
