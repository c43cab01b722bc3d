// Gradients that are reduced while backward is still running. The workers are threads, whose
// collectives the test counts.
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "brigade/distribute/testing/deferred_product.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/optim/sgd.h"

namespace brigade::distribute {
namespace {

/// Counts the finished reductions.
class CountedCommunicator final : public comm::ProcessCommunicator {
 public:
  explicit CountedCommunicator(std::unique_ptr<comm::ProcessCommunicator> inner)
      : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  at::Tensor make_buffer(std::int64_t numel, at::ScalarType dtype) override {
    return inner_->make_buffer(numel, dtype);
  }
  void all_reduce_subtrees(std::span<const at::Tensor> sets,
                           const comm::ReductionBlocks& blocks) override {
    inner_->all_reduce_subtrees(sets, blocks);
    ++reductions_;
  }
  comm::Transport transport() const override { return inner_->transport(); }
  comm::Traffic traffic() const override { return inner_->traffic(); }
  comm::StepProgress& progress() override { return inner_->progress(); }

  int reductions() const { return reductions_; }
  /// Whether there are more than `before` within `time`.
  bool reduces_more_than(int before,
                         std::chrono::milliseconds time = std::chrono::seconds(60)) const {
    const auto deadline = std::chrono::steady_clock::now() + time;
    while (reductions_ <= before) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

 private:
  std::vector<at::Tensor> execute(const comm::CollectiveCall& call) override {
    auto gathered = inner_->run(call);
    if (call.kind == comm::Collective::kAllReduce) ++reductions_;
    return gathered;
  }

  const std::unique_ptr<comm::ProcessCommunicator> inner_;
  std::atomic<int> reductions_ = 0;
};

/// The strategy of a worker with a counted communicator.
class CountedStrategy : public Strategy {
 public:
  CountedStrategy(std::shared_ptr<CountedCommunicator> communicator,
                  std::shared_ptr<const WorkerGroup> workers, int replicas, std::vector<int> slots)
      : Strategy({.name = "counted",
                  .devices = plain_cpus(replicas),
                  .slots = std::move(slots),
                  .storage =
                      variables::make_flat_storage_factory(variables::StorageSharing::kOneStorage),
                  .synchronizer = make_worker_synchronizer,
                  .timeout = std::chrono::seconds(60),
                  .spin = std::chrono::microseconds(0),
                  .workers = std::move(workers)}),
        communicator_(std::move(communicator)) {}
  const CountedCommunicator& communicator() const { return *communicator_; }

 private:
  const std::shared_ptr<CountedCommunicator> communicator_;
};

enum class Devices { kOneAReplica, kOneAWorker };

/// Runs `work` in one worker per element of `replicas`, with that many replicas. A worker that
/// throws is lost to the others.
void run_counted(const std::vector<int>& replicas, std::optional<std::int64_t> bytes_per_pack,
                 const std::function<void(CountedStrategy&)>& work,
                 Devices devices = Devices::kOneAReplica) {
  const auto memberships =
      cluster::testing::make_in_memory_memberships(static_cast<int>(replicas.size()));
  std::vector<std::thread> threads;
  for (std::size_t worker = 0; worker < replicas.size(); ++worker) {
    threads.emplace_back([&, worker] {
      try {
        auto communicator = std::make_shared<CountedCommunicator>(comm::make_process_communicator(
            memberships[worker], {.timeout = std::chrono::seconds(60)}));
        auto workers = std::make_shared<const WorkerGroup>(
            WorkerGroup{.membership = memberships[worker],
                        .communicator = communicator,
                        .layout = {.process = static_cast<int>(worker), .replicas = replicas},
                        .bytes_per_pack = bytes_per_pack});
        const auto slots = devices == Devices::kOneAWorker
                               ? std::vector<int>(static_cast<std::size_t>(replicas[worker]), 0)
                               : std::vector<int>();
        CountedStrategy strategy(communicator, workers, replicas[worker], slots);
        work(strategy);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "worker " << worker << ": " << error.what();
        cluster::testing::lose(*memberships[worker], static_cast<int>(worker), "its thread threw");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// y = x * bottom * top, and a parameter that nothing uses.
struct Tower : torch::nn::Module {
  Tower() {
    bottom = register_parameter("bottom", at::full({3}, 2.0, at::kDouble));
    unused = register_parameter("unused", at::full({2}, 5.0, at::kDouble));
    top = register_parameter("top", at::full({3}, 3.0, at::kDouble));
  }
  /// `midway` is called in backward between the gradients of `top` and of `bottom`.
  at::Tensor forward(double x, const std::function<void()>& midway) const {
    const at::Tensor hidden = bottom * x;
    hidden.register_hook([midway](const at::Tensor&) { midway(); });
    return (hidden * top).sum();
  }
  at::Tensor bottom, unused, top;
};

std::vector<at::Tensor> values_of(const Replicated<Tower>& model) {
  std::vector<at::Tensor> values;
  for (const auto& variable : model.variables()) values.push_back(variable.read().clone());
  return values;
}

void expect_values(const Replicated<Tower>& model, double bottom, double top) {
  EXPECT_TRUE(model->bottom.equal(at::full({3}, bottom, at::kDouble))) << model->bottom;
  EXPECT_TRUE(model->unused.equal(at::full({2}, 5.0, at::kDouble)));
  EXPECT_TRUE(model->top.equal(at::full({3}, top, at::kDouble))) << model->top;
}

TEST(EagerReduction, ABucketIsReducedBeforeBackwardHasEnded) {
  for (const std::vector<int>& replicas : {std::vector{1, 1}, {2, 1}}) {
    std::atomic<int> seen = 0;
    run_counted(replicas, 1, [&](CountedStrategy& strategy) {
      const auto model = strategy.create<Tower>();
      const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.125});
      const int before = strategy.communicator().reductions();
      strategy.run([&](ReplicaContext&) {
        const auto midway = [&] {
          if (strategy.communicator().reduces_more_than(before)) ++seen;
        };
        optimizer.minimize(model.local().forward(1.0, midway), LossScale::kSum);
      });
      const double all = strategy.num_replicas_in_sync();
      expect_values(model, 2.0 - 0.125 * 3.0 * all, 3.0 - 0.125 * 2.0 * all);
    });
    EXPECT_EQ(seen, replicas[0] + replicas[1]);
  }
}

// It contains the presence numbers, which are known when backward has ended.
TEST(EagerReduction, TheLastBucketWaitsForTheEndOfBackward) {
  run_counted({1, 1}, 1, [&](CountedStrategy& strategy) {
    const auto model = strategy.create<Tower>();
    const std::vector<variables::Variable> used = {model.variables()[0], model.variables()[2]};
    const auto state = std::make_shared<optim::OptimizerState>(
        optim::Sgd{.learning_rate = 0.125}.rule(), used, std::span<const optim::ParameterGroup>());
    const auto group = std::make_shared<comm::LocalGroup>(
        1, comm::LocalGroupOptions{.timeout = std::chrono::seconds(60)});
    const auto workers = std::make_shared<const WorkerGroup>(*strategy.workers());
    const auto synchronizer =
        make_worker_synchronizer({.state = state, .group = group, .workers = workers});
    GradientReadyListener* const listener = synchronizer->ready_listener();
    const int before = strategy.communicator().reductions();
    const std::vector<at::Tensor> gradients(2, at::full({3}, 1.0, at::kDouble));
    listener->begin(0);
    for (std::size_t i = gradients.size(); i-- > 0;) listener->ready(0, i, gradients[i]);
    EXPECT_TRUE(strategy.communicator().reduces_more_than(before)) << "all others";
    constexpr std::chrono::milliseconds kShort{50};
    EXPECT_FALSE(strategy.communicator().reduces_more_than(before + 1, kShort));
    synchronizer->apply(0, gradients, GradientState::kLocal);
    synchronizer->end_step(StepOutcome::kDone);
    expect_values(model, 2.0 - 0.125 * 2.0, 3.0 - 0.125 * 2.0);
  });
}

TEST(EagerReduction, ByDefaultGradientsAreReducedAfterBackwardInOneReduction) {
  run_counted({1, 1}, 0, [&](CountedStrategy& strategy) {
    const auto model = strategy.create<Tower>();
    const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.125});
    const int before = strategy.communicator().reductions();
    strategy.run([&](ReplicaContext&) {
      const auto midway = [&] { EXPECT_EQ(strategy.communicator().reductions(), before); };
      optimizer.minimize(model.local().forward(1.0, midway), LossScale::kSum);
    });
    EXPECT_EQ(strategy.communicator().reductions(), before + 1);
  });
}

TEST(EagerReduction, CollectivesOfBackwardComeFirst) {
  run_counted({1, 1}, 1, [&](CountedStrategy& strategy) {
    const auto model = strategy.create<Tower>();
    const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.125});
    for (int step = 0; step < 2; ++step) {
      strategy.run([&](ReplicaContext& context) {
        // Differentiable: its backward is a reduction, which must not overlap with those of
        // buckets.
        const at::Tensor shared = context.all_reduce(comm::ReduceOp::kMean, model->bottom * 1.0);
        const int before = strategy.communicator().reductions();
        // Here the gradient of `top` is complete, and would be reduced immediately.
        shared.register_hook([&](const at::Tensor&) {
          constexpr std::chrono::milliseconds kShort{50};
          EXPECT_FALSE(strategy.communicator().reduces_more_than(before, kShort));
        });
        optimizer.minimize((shared * model->top).sum(), LossScale::kSum);
      });
    }
    EXPECT_FALSE(model->bottom.equal(at::full({3}, 2.0, at::kDouble)));
  });
}

TEST(EagerReduction, GradientsThatAreChangedBeforeTheyAreAppliedWait) {
  run_counted({2, 1}, 1, [&](CountedStrategy& strategy) {
    const auto model = strategy.create<Tower>();
    const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.125});
    const int before = strategy.communicator().reductions();
    strategy.run([&](ReplicaContext&) {
      const auto midway = [&] { EXPECT_EQ(strategy.communicator().reductions(), before); };
      const Gradients own =
          optimizer.compute_gradients(model.local().forward(1.0, midway), LossScale::kSum);
      optimizer.apply_gradients(optimizer.aggregate(own));
    });
    expect_values(model, 2.0 - 0.125 * 9.0, 3.0 - 0.125 * 6.0);
  });
}

TEST(EagerReduction, AnEmptyBatchJoinsAfterTheOthersBackward) {
  run_counted({2, 1}, 1, [&](CountedStrategy& strategy) {
    const auto model = strategy.create<Tower>();
    const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.125});
    for (int step = 0; step < 2; ++step) {
      strategy.run([&](ReplicaContext& context) {
        // In each step only one replica of worker 0 has an example.
        const std::int64_t examples = context.replica_id() == step ? 1 : 0;
        const at::Tensor losses =
            model.local().forward(1.0, [] {}).reshape({1}).narrow(0, 0, examples);
        optimizer.minimize(losses, LossScale::kSum);
      });
    }
    expect_values(model, 2.0 - 0.125 * (3.0 + 2.75), 3.0 - 0.125 * (2.0 + 1.625));
  });
}

struct PassFailed : std::runtime_error {
  PassFailed() : std::runtime_error("the pass failed") {}
};

TEST(EagerReduction, ABackwardThatThrowsInOneReplicaIsTheProgramsError) {
  std::atomic<int> num_notified = 0;
  const Error error = error_from([&] {
    run_workers(
        {2, 1},
        [&](MultiWorkerMirroredStrategy& strategy) {
          const auto model = strategy.create<Tower>();
          const auto optimizer = strategy.optimizer(model, optim::Sgd{});
          const auto run = [&] {
            strategy.run([&](ReplicaContext& context) {
              const auto midway = [&] {
                if (context.replica_id() == 1) throw PassFailed();
              };
              optimizer.minimize(model.local().forward(1.0, midway), LossScale::kSum);
            });
          };
          if (strategy.is_chief()) return run();
          const Error lost = error_from(run);
          if (lost.code() == ErrorCode::kUnavailable && mentions(lost, "/job:worker/task:0"))
            ++num_notified;
        },
        {.bytes_per_pack = 1});
  });
  EXPECT_TRUE(mentions(error, "the pass failed")) << error.what();
  EXPECT_TRUE(mentions(error, "Replica 1")) << error.what();
  EXPECT_EQ(num_notified, 1);
}

TEST(EagerReduction, AWorkerThatIsLostDuringBackwardIsNamed) {
  for (const bool before_its_first_gradient : {true, false}) {
    std::atomic<int> num_notified = 0;
    const Error error = error_from([&] {
      run_workers(
          {1, 1, 1},
          [&](MultiWorkerMirroredStrategy& strategy) {
            const auto model = strategy.create<Tower>();
            const auto optimizer = strategy.optimizer(model, optim::Sgd{});
            const bool fails = strategy.worker_index() == 1;
            const auto run = [&] {
              strategy.run([&](ReplicaContext&) {
                const auto midway = [&] {
                  if (fails && !before_its_first_gradient) throw PassFailed();
                };
                const at::Tensor loss = model.local().forward(1.0, midway);
                loss.register_hook([&](const at::Tensor&) {
                  if (fails && before_its_first_gradient) throw PassFailed();
                });
                optimizer.minimize(loss, LossScale::kSum);
              });
            };
            if (fails) return run();
            const Error lost = error_from(run);
            if (lost.code() == ErrorCode::kUnavailable && mentions(lost, "/job:worker/task:1"))
              ++num_notified;
          },
          {.bytes_per_pack = 1});
    });
    EXPECT_TRUE(mentions(error, "the pass failed")) << error.what();
    EXPECT_EQ(num_notified, 2);
  }
}

TEST(EagerReduction, StepsMayFollowOneThatFailedBeforeItsFirstBucket) {
  run_counted({2, 1}, 1, [&](CountedStrategy& strategy) {
    const auto model = strategy.create<Tower>();
    const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.125});
    for (const bool fails : {true, false}) {
      const Error error = error_from([&] {
        strategy.run([&](ReplicaContext& context) {
          const at::Tensor loss = model.local().forward(1.0, [] {});
          loss.register_hook([&](const at::Tensor&) {
            if (fails && context.local_id == 0) throw PassFailed();
          });
          optimizer.minimize(loss, LossScale::kSum);
        });
      });
      EXPECT_EQ(mentions(error, "the pass failed"), fails) << error.what();
    }
    expect_values(model, 2.0 - 0.125 * 9.0, 3.0 - 0.125 * 6.0);
  });
}

TEST(EagerReduction, StepsMayFollowOneThatFailedAfterABucket) {
  run_counted({1, 1}, 1, [&](CountedStrategy& strategy) {
    const auto model = strategy.create<Tower>();
    const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.125});
    const auto before = values_of(model);
    const auto step = [&](bool fails) {
      const int reductions = strategy.communicator().reductions();
      return error_from([&] {
        strategy.run([&](ReplicaContext&) {
          const auto midway = [&] {
            EXPECT_TRUE(strategy.communicator().reduces_more_than(reductions));
            if (fails) throw PassFailed();
          };
          optimizer.minimize(model.local().forward(1.0, midway), LossScale::kSum);
        });
      });
    };
    EXPECT_TRUE(mentions(step(true), "the pass failed"));
    const auto after = values_of(model);
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(after[i].equal(before[i]));
    const Error none = step(false);
    EXPECT_TRUE(std::string(none.what()).empty()) << none.what();
    expect_values(model, 2.0 - 0.125 * 6.0, 3.0 - 0.125 * 4.0);
  });
}

TEST(EagerReduction, GradientsCannotBeAppliedInAStepInWhichBackwardFailed) {
  run_counted({1, 1}, 1, [&](CountedStrategy& strategy) {
    const auto model = strategy.create<Tower>();
    const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.125});
    const auto minimize = [&](bool fails) {
      const auto midway = [&] {
        if (fails) throw PassFailed();
      };
      optimizer.minimize(model.local().forward(1.0, midway), LossScale::kSum);
    };
    const Error error = error_from([&] {
      strategy.run([&](ReplicaContext&) {
        EXPECT_THROW(minimize(true), PassFailed);
        minimize(false);
      });
    });
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition) << error.what();
    EXPECT_TRUE(mentions(error, "backward has failed")) << error.what();
    // The step fails even if the program catches the error.
    strategy.run([&](ReplicaContext&) { EXPECT_THROW(minimize(true), PassFailed); });
    strategy.run([&](ReplicaContext&) { minimize(false); });
    expect_values(model, 2.0 - 0.125 * 6.0, 3.0 - 0.125 * 4.0);
  });
}

// Replicas that compute one after another on the device of their worker.

TEST(EagerReduction, TheLastReplicaOfADeviceSendsTheSumsOfAllDuringItsBackward) {
  for (const std::vector<int>& replicas : {std::vector{4, 4}, {2, 2, 2, 2}, {2, 1}}) {
    std::atomic<int> seen = 0;
    run_counted(
        replicas, 1,
        [&](CountedStrategy& strategy) {
          const auto model = strategy.create<Tower>();
          const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.125});
          const int before = strategy.communicator().reductions();
          std::atomic<int> backwards = 0;
          strategy.run([&](ReplicaContext&) {
            const auto midway = [&] {
              if (++backwards < strategy.num_local_replicas()) {
                EXPECT_EQ(strategy.communicator().reductions(), before);
              } else if (strategy.communicator().reduces_more_than(before)) {
                ++seen;
              }
            };
            optimizer.minimize(model.local().forward(1.0, midway), LossScale::kSum);
          });
          const double all = strategy.num_replicas_in_sync();
          expect_values(model, 2.0 - 0.125 * 3.0 * all, 3.0 - 0.125 * 2.0 * all);
        },
        Devices::kOneAWorker);
    EXPECT_EQ(seen, static_cast<int>(replicas.size()));
  }
}

// Of six replicas the tree adds the first four and the last two.
TEST(EagerReduction, DevicesWhoseReplicasAreNoSubtreeSendAfterBackward) {
  run_counted(
      {3, 3}, 1,
      [&](CountedStrategy& strategy) {
        const auto model = strategy.create<Tower>();
        const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.125});
        const int before = strategy.communicator().reductions();
        strategy.run([&](ReplicaContext&) {
          const auto midway = [&] { EXPECT_EQ(strategy.communicator().reductions(), before); };
          optimizer.minimize(model.local().forward(1.0, midway), LossScale::kSum);
        });
        expect_values(model, 2.0 - 0.125 * 18.0, 3.0 - 0.125 * 12.0);
      },
      Devices::kOneAWorker);
}

TEST(EagerReduction, SumsOfADeviceHaveTheSameBitsDuringBackwardAndAfterIt) {
  std::map<std::int64_t, std::vector<at::Tensor>> results;
  for (const std::int64_t bytes_per_pack : {0, 1}) {
    run_counted(
        {8, 4, 4}, bytes_per_pack,
        [&](CountedStrategy& strategy) {
          const auto model = strategy.create<Tower>();
          const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 1e-5});
          for (int step = 0; step < 3; ++step) {
            strategy.run([&](ReplicaContext& context) {
              const double x = (context.replica_id() % 2 ? 1e3 : 1e-3) / (step + 3.0);
              optimizer.minimize(model.local().forward(x, [] {}), LossScale::kSum);
            });
          }
          if (strategy.is_chief()) results[bytes_per_pack] = values_of(model);
        },
        Devices::kOneAWorker);
  }
  for (std::size_t i = 0; i < results[0].size(); ++i)
    EXPECT_TRUE(results[0][i].equal(results[1][i])) << results[0][i] << results[1][i];
}

/// Two products whose weights' gradients may be taken without being computed.
struct DeferredTower : torch::nn::Module {
  explicit DeferredTower(std::atomic<int>& counter) : handed_over(counter) {
    bottom = register_parameter("bottom", at::full({4, 3}, 2.0));
    top = register_parameter("top", at::full({2, 4}, 3.0));
  }
  /// As `Tower`'s. If not `defers`, the gradients are those of views, and computed.
  at::Tensor forward(const at::Tensor& x, bool defers, const std::function<void()>& midway) const {
    const auto weight = [&](const at::Tensor& own) { return defers ? own : own.view_as(own); };
    const at::Tensor hidden = DeferredProduct::of(x, weight(bottom), handed_over).sin();
    hidden.register_hook([midway](const at::Tensor&) { midway(); });
    return DeferredProduct::of(hidden, weight(top), handed_over).square().sum();
  }
  std::atomic<int>& handed_over;
  at::Tensor bottom, top;
};

TEST(EagerReduction, DeferredGradientsOfADeviceAreSentDuringTheLastBackward) {
  std::vector<at::Tensor> results;
  for (const bool defers : {false, true}) {
    for (const std::int64_t bytes_per_pack : {0, 1}) {
      std::atomic<int> handed_over = 0;
      std::atomic<int> seen = 0;
      run_counted(
          {4, 2}, bytes_per_pack,
          [&](CountedStrategy& strategy) {
            const auto model = strategy.create<DeferredTower>(std::ref(handed_over));
            const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 1e-3});
            for (int step = 0; step < 2; ++step) {
              const int before = strategy.communicator().reductions();
              std::atomic<int> backwards = 0;
              strategy.run([&](ReplicaContext& context) {
                const at::Tensor x =
                    at::full({2, 3}, context.replica_id() % 2 ? 1e2 : 1e-2).add_(step);
                const auto midway = [&] {
                  if (++backwards == strategy.num_local_replicas() && bytes_per_pack == 1 &&
                      strategy.communicator().reduces_more_than(before))
                    ++seen;
                };
                optimizer.minimize(model.local().forward(x, defers, midway), LossScale::kSum);
              });
            }
            if (strategy.is_chief())
              results.push_back(at::cat({model->bottom.flatten(), model->top.flatten()}).detach());
          },
          Devices::kOneAWorker);
      EXPECT_EQ(handed_over, defers ? 2 * 2 * 6 : 0);
      EXPECT_EQ(seen, bytes_per_pack == 1 ? 2 * 2 : 0);
    }
  }
  for (const at::Tensor& result : results) EXPECT_TRUE(result.equal(results.front()));
}

TEST(EagerReduction, AnEmptyBatchOfAnyReplicaOfADeviceCounts) {
  for (const int with_example : {0, 1, 3}) {
    run_counted(
        {4, 4}, 1,
        [&](CountedStrategy& strategy) {
          const auto model = strategy.create<Tower>();
          const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.125});
          strategy.run([&](ReplicaContext& context) {
            const std::int64_t examples = context.replica_id() == with_example ? 1 : 0;
            const at::Tensor losses =
                model.local().forward(1.0, [] {}).reshape({1}).narrow(0, 0, examples);
            optimizer.minimize(losses, LossScale::kSum);
          });
          expect_values(model, 2.0 - 0.125 * 3.0, 3.0 - 0.125 * 2.0);
        },
        Devices::kOneAWorker);
  }
}

TEST(EagerReduction, ReplicasOfADeviceMayUseDifferentVariables) {
  run_counted(
      {2, 2}, 1,
      [&](CountedStrategy& strategy) {
        const auto model = strategy.create<Tower>();
        const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.125});
        strategy.run([&](ReplicaContext& context) {
          const bool uses_bottom = context.replica_id() % 2 == 0;
          const at::Tensor& used = uses_bottom ? model.local().bottom : model.local().top;
          optimizer.minimize(used.sum(), LossScale::kSum);
        });
        expect_values(model, 2.0 - 0.125 * 2.0, 3.0 - 0.125 * 2.0);
      },
      Devices::kOneAWorker);
}

TEST(EagerReduction, AStepMayFollowOneInWhichTheLastReplicaOfADeviceFailed) {
  for (const int failing : {0, 1, 3}) {
    run_counted(
        {4, 4}, 1,
        [&](CountedStrategy& strategy) {
          const auto model = strategy.create<Tower>();
          const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.125});
          for (const bool fails : {true, false}) {
            const Error error = error_from([&] {
              strategy.run([&](ReplicaContext& context) {
                const auto midway = [&] {
                  if (fails && context.local_id == failing) throw PassFailed();
                };
                optimizer.minimize(model.local().forward(1.0, midway), LossScale::kSum);
              });
            });
            EXPECT_EQ(mentions(error, "the pass failed"), fails) << error.what();
          }
          expect_values(model, 2.0 - 0.125 * 24.0, 3.0 - 0.125 * 16.0);
        },
        Devices::kOneAWorker);
  }
}

}  // namespace
}  // namespace brigade::distribute
