// Workers with their own data train: in each step they agree on the input in the calls that they
// make anyway, and everything else is as if they agreed in a call of its own. The workers are
// threads.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/concurrency/signal.h"
#include "brigade/data/sources/files.h"
#include "brigade/distribute/testing/card_workers.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/optim/sgd.h"

namespace brigade::distribute {
namespace {

using concurrency::Signal;
using device::testing::FakeDevice;
using Rows = data::Dataset<at::Tensor>;
using Counts = std::vector<std::int64_t>;
using Policy = AutoShardPolicy;

// libtorch counts the devices when its first backward begins.
[[maybe_unused]] const FakeDevice& registered_before_backward = FakeDevice::get();

constexpr std::chrono::seconds kDeadline(30);
/// More than any test has: the thread that prefetches reads to the end at once.
constexpr int kAll = 64;

Rows rows(std::int64_t begin, std::int64_t end) {
  return input::from_tensor_slices(at::arange(3 * begin, 3 * end, at::kDouble).view({-1, 3}).sin());
}

/// Files of so many rows each.
Rows files_of_rows(const Counts& sizes) {
  std::vector<io::Path> names;
  std::int64_t first = 0;
  for (const std::int64_t size : sizes) {
    names.push_back(base::str_cat(first, "+", size));
    first += size;
  }
  return data::from_files<at::Tensor>(names, [](const io::Path& path) {
    const std::string name = path.string();
    const std::int64_t begin = std::stoll(name);
    return rows(begin, begin + std::stoll(name.substr(name.find('+') + 1)));
  });
}

/// What the input of a test is made with in one worker.
struct InputMaker {
  const Strategy& strategy;
  Signal& read;                  ///< raised for each batch that the worker reads
  std::optional<int> ahead = 0;  ///< for how many steps it prefetches

  Rows followed(const Rows& batches) const {
    return batches.map([read = &read](at::Tensor batch) {
      read->raise();
      return batch;
    });
  }
  auto by(Policy policy, const Rows& batches) const {
    return strategy.distribute(followed(batches),
                               {.auto_shard = policy, .per_replica_buffer_size = ahead});
  }
  /// Of so many rows in each worker, in batches of two.
  auto by_function(const Counts& sizes) const {
    return strategy.distribute_from_function(
        [&](const InputContext& context) {
          const std::int64_t size = sizes[static_cast<std::size_t>(context.input_pipeline_id)];
          return followed(
              rows(context.input_pipeline_id, context.input_pipeline_id + size).batch(2));
        },
        {.per_replica_buffer_size = ahead});
  }
};

using MakeInput = std::function<DistributedDataset<at::Tensor>(const InputMaker&)>;

/// What one worker saw in an epoch.
struct WorkerEpoch {
  Counts calls;     // between the workers: in each step, and in the `next` that found the end
  Counts examples;  // of all workers, in each step
  std::int64_t own_steps = 0;  // in which it had examples
  std::uint64_t read = 0;      // batches
  std::vector<at::Tensor> weights;
};

/// A weight on the fake device.
struct ModuleOnCard : torch::nn::Module {
  ModuleOnCard() {
    weight = register_parameter("weight", at::full({3}, 2.0, at::kDouble).to(FakeDevice::device()));
  }
  at::Tensor forward(const at::Tensor& x) const { return x * weight; }
  at::Tensor weight;
};

/// A model and its optimizer in one worker.
template <class Module>
struct Training {
  explicit Training(Strategy& of)
      : strategy(of),
        model(of.create<Module>()),
        optimizer(of.optimizer(model, optim::Sgd{.learning_rate = 0.1})) {}

  void step(const PerReplica<at::Tensor>& batch) {
    strategy.run(
        [&](ReplicaContext&, const at::Tensor& own) {
          optimizer.minimize(model.local().forward(own).square().sum(1));
        },
        batch);
  }
  comm::ProcessCommunicator& workers() const { return *strategy.workers()->communicator; }
  std::int64_t calls() const { return workers().traffic().collectives; }
  std::vector<at::Tensor> weights() const {
    std::vector<at::Tensor> weights;
    for (const auto& variable : model.variables())
      weights.push_back(variable.component(0).detach().to(c10::kCPU, /*non_blocking=*/false,
                                                          /*copy=*/true));
    return weights;
  }

  Strategy& strategy;
  Replicated<Module> model;
  Optimizer optimizer;
};

using TrainingOnCpus = Training<AffineModule>;

struct EpochOptions {
  std::vector<int> replicas = {1, 1};
  MakeInput input = {};
  int ahead = 0;
  /// [worker]: the first step waits until so many batches were read.
  std::vector<std::uint64_t> reads = {};
  /// On the fake device and the fake NCCL, with one replica in each worker.
  bool on_cards = false;
};

template <class Module>
WorkerEpoch epoch_of_worker(Strategy& strategy, const EpochOptions& options) {
  const auto worker = static_cast<std::size_t>(strategy.worker_index());
  Signal read;
  Training<Module> training(strategy);
  WorkerEpoch epoch;
  auto iterator =
      options.input({.strategy = strategy, .read = read, .ahead = options.ahead}).iterator();
  training.workers().barrier();
  const int waits = FakeDevice::get().host_waits();
  training.workers().barrier();
  while (true) {
    const std::int64_t before = training.calls();
    const auto batch = iterator.next();
    if (batch) {
      if (epoch.calls.empty() && !options.reads.empty())
        EXPECT_TRUE(read.wait_for(options.reads[worker], std::chrono::microseconds(0), kDeadline));
      training.step(*batch);
      epoch.examples.push_back(batch->examples()->global);
      epoch.own_steps += batch->examples()->local[0] > 0 ? 1 : 0;
    }
    epoch.calls.push_back(training.calls() - before);
    if (!batch) break;
  }
  training.workers().barrier();
  EXPECT_EQ(FakeDevice::get().host_waits(), waits) << "of all workers for the card";
  training.workers().barrier();
  epoch.read = read.value();
  epoch.weights = training.weights();
  return epoch;
}

std::vector<WorkerEpoch> train_epoch(const EpochOptions& options) {
  std::mutex mutex;
  std::vector<WorkerEpoch> all(options.replicas.size());
  const auto keep = [&](const Strategy& strategy, WorkerEpoch epoch) {
    const std::lock_guard lock(mutex);
    all[static_cast<std::size_t>(strategy.worker_index())] = std::move(epoch);
  };
  if (options.on_cards) {
    run_card_workers(static_cast<int>(options.replicas.size()), [&](Strategy& strategy) {
      keep(strategy, epoch_of_worker<ModuleOnCard>(strategy, options));
    });
  } else {
    run_workers(options.replicas, [&](Strategy& strategy) {
      keep(strategy, epoch_of_worker<AffineModule>(strategy, options));
    });
  }
  return all;
}

void expect_same_training(const WorkerEpoch& some, const WorkerEpoch& other) {
  EXPECT_EQ(some.examples, other.examples);
  ASSERT_EQ(some.weights.size(), other.weights.size());
  for (std::size_t i = 0; i < some.weights.size(); ++i)
    EXPECT_TRUE(some.weights[i].equal(other.weights[i])) << some.weights[i] << other.weights[i];
}

/// Steps whose input the thread may still be handing over when the step before is computed,
/// although the test waited until all was read: those of the last batch, and the end.
bool may_be_late(const std::vector<WorkerEpoch>& workers, const std::vector<int>& replicas,
                 std::int64_t step) {
  std::int64_t total = 0;
  for (const int count : replicas) total += count;
  for (const WorkerEpoch& worker : workers) {
    if (std::abs(step - worker.own_steps) <= total) return true;
  }
  return false;
}

struct CallsCase {
  std::vector<int> replicas = {1, 1};
  MakeInput input = {};
  bool is_own_data = true;
  bool on_cards = false;
};

/// Trains without and with prefetching: the same bits, and one call in each step.
void expect_one_call_a_step(const CallsCase& test) {
  EpochOptions options{.replicas = test.replicas, .input = test.input, .on_cards = test.on_cards};
  const auto before = train_epoch(options);
  options.ahead = kAll;
  for (const WorkerEpoch& worker : before) options.reads.push_back(worker.read);
  const auto ahead = train_epoch(options);
  int exact = 0;
  for (std::size_t worker = 0; worker < ahead.size(); ++worker) {
    SCOPED_TRACE(base::str_cat("worker ", worker, " of ", ahead.size()));
    expect_same_training(ahead[worker], before[worker]);
    const Counts& calls = ahead[worker].calls;
    ASSERT_EQ(calls.size(), before[worker].calls.size());
    ASSERT_GT(calls.size(), 5u);
    for (std::size_t step = 1; step < calls.size(); ++step) {
      const bool is_step = step + 1 < calls.size();  // and not the end
      EXPECT_EQ(before[worker].calls[step], (is_step ? 1 : 0) + (test.is_own_data ? 1 : 0)) << step;
      if (test.is_own_data && may_be_late(ahead, test.replicas, static_cast<std::int64_t>(step))) {
        EXPECT_LE(calls[step], before[worker].calls[step]) << step;
      } else {
        EXPECT_EQ(calls[step], is_step ? 1 : 0) << step;
        ++exact;
      }
    }
  }
  EXPECT_GT(exact, 0);
}

/// Of so different lengths that workers end at different steps.
std::map<std::string, MakeInput> own_inputs() {
  return {{"by file",
           [](const InputMaker& make) {
             return make.by(Policy::kFile, files_of_rows({40, 21, 33, 8, 3}).batch(4));
           }},
          {"by hint",
           [](const InputMaker& make) {
             return make.by(Policy::kHint, rows(0, 72).shard_hint().batch(4));
           }},
          {"from a function", [](const InputMaker& make) {
             return make.by_function({7, 50, 20});
           }}};
}

TEST(WorkerInput, AStepHasOneCallOfTheWorkersAndTheSameBits) {
  for (const auto& [name, input] : own_inputs()) {
    for (const std::vector<int>& replicas : {std::vector{2, 1}, {1, 1, 1}}) {
      SCOPED_TRACE(name);
      expect_one_call_a_step({.replicas = replicas, .input = input});
    }
  }
}

TEST(WorkerInput, InputThatAllWorkersReadNeedsNoCall) {
  for (const Policy policy : {Policy::kOff, Policy::kData}) {
    for (const bool on_cards : {false, true}) {
      expect_one_call_a_step(
          {.input = [&](const InputMaker& make) { return make.by(policy, rows(0, 30).batch(4)); },
           .is_own_data = false,
           .on_cards = on_cards});
    }
  }
}

TEST(WorkerInput, OnCardsTheOnlyCallOfAStepIsTheAgreementOnItsGradients) {
  for (const auto& [name, input] : own_inputs()) {
    SCOPED_TRACE(name);
    expect_one_call_a_step({.input = input, .on_cards = true});
  }
}

// Each step waits until the thread is one batch further than the next.
TEST(WorkerInput, OnCardsInputIsPrefetchedFarEnoughByDefault) {
  constexpr int kBatches = 12;
  run_card_workers(2, [](Strategy& strategy) {
    Signal read;
    Training<ModuleOnCard> training(strategy);
    const InputMaker make{.strategy = strategy, .read = read, .ahead = std::nullopt};
    auto iterator = make.by_function({2 * kBatches, 2 * kBatches}).iterator();
    for (std::uint64_t step = 0; step + 2 < kBatches; ++step) {
      const std::int64_t before = training.calls();
      const auto batch = iterator.next();
      ASSERT_TRUE(batch);
      ASSERT_TRUE(read.wait_for(step + 3, std::chrono::microseconds(0), kDeadline));
      training.step(*batch);
      if (step > 0) EXPECT_EQ(training.calls() - before, 1) << step;
    }
    training.workers().barrier();
    EXPECT_TRUE(training.weights()[0].isfinite().all().item<bool>());  // the card's work is done
  });
}

// Batch k of worker 1 cannot be read before step k - 1 is over.
TEST(WorkerInput, ASlowWorkerHoldsUpOnlyItsOwnStep) {
  Signal steps;
  std::atomic<int> two_calls = 0;
  run_workers({1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
    const bool is_slow = strategy.worker_index() == 1;
    const auto dataset = strategy.distribute_from_function(
        [&](const InputContext&) {
          return rows(0, 16).batch(2).map(
              [&steps, is_slow, number = std::make_shared<std::uint64_t>(0)](at::Tensor batch) {
                const std::uint64_t before = (*number)++;
                if (is_slow)
                  EXPECT_TRUE(steps.wait_for(before, std::chrono::microseconds(0), kDeadline));
                return batch;
              });
        },
        {.per_replica_buffer_size = 1});
    TrainingOnCpus training(strategy);
    auto iterator = dataset.iterator();
    for (int step = 0; step < 8; ++step) {
      const std::int64_t before = training.calls();
      const auto batch = iterator.next();
      ASSERT_TRUE(batch);
      training.step(*batch);
      if (step > 0 && training.calls() - before == 2) ++two_calls;
      if (!is_slow) steps.raise();
    }
    EXPECT_FALSE(iterator.next());
  });
  EXPECT_EQ(two_calls, 2 * 7) << "the workers ask one another where one does not know";
}

/// All bits of the values.
std::string text_of(const at::Tensor& tensor) {
  const at::Tensor values = tensor.contiguous();
  std::string text = base::str_cat(values.sizes());
  for (std::int64_t i = 0; i < values.numel(); ++i)
    text += base::str_cat(" ", std::bit_cast<std::uint64_t>(values.const_data_ptr<double>()[i]));
  return text;
}

/// The batches of one worker in all steps of a test, as text.
using Log = std::vector<std::string>;

/// What the workers see, with each number of prefetched steps, if all do `body`.
void expect_same_logs(const std::function<void(const InputMaker&, TrainingOnCpus&, Log&)>& body) {
  std::map<int, std::map<int, Log>> all;  // by number and worker
  for (const int ahead : {0, 1, 3, kAll}) {
    std::mutex mutex;
    run_workers({1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
      Signal read;
      TrainingOnCpus training(strategy);
      Log log;
      body({.strategy = strategy, .read = read, .ahead = ahead}, training, log);
      for (const at::Tensor& weight : training.weights()) log.push_back(text_of(weight));
      const std::lock_guard lock(mutex);
      all[ahead][strategy.worker_index()] = std::move(log);
    });
    for (const int worker : {0, 1}) {
      EXPECT_GT(all[0][worker].size(), 3u);
      EXPECT_EQ(all[ahead][worker], all[0][worker]) << ahead << " ahead, worker " << worker;
    }
  }
}

void record(Log& log, const PerReplica<at::Tensor>& batch) {
  log.push_back(base::str_cat(text_of(batch[0]), " of ", batch.examples()->global));
}

TEST(WorkerInput, AnotherPositionAndAnotherEpochAreReachedInAllWorkers) {
  expect_same_logs([](const InputMaker& make, TrainingOnCpus& training, Log& log) {
    auto iterator = make.by_function({7, 12}).iterator();
    const auto train = [&](int steps) {
      for (int step = 0; step < steps; ++step) {
        const auto batch = iterator.next();
        if (!batch) return log.push_back("end");
        record(log, *batch);
        training.step(*batch);
      }
    };
    train(2);
    const io::StateTree saved = iterator.save();
    train(3);
    iterator.restore(saved);  // with the end of worker 0 agreed on
    train(1);
    iterator.restore(saved);
    train(1);
    EXPECT_THROW(iterator.restore(io::StateTree::dict()), Error);
    train(1);
    iterator.start_next_epoch();
    train(100);
    train(2);
    iterator.start_next_epoch();
    train(100);
  });
}

TEST(WorkerInput, ValidationBetweenStepsHasItsOwnAgreement) {
  expect_same_logs([](const InputMaker& make, TrainingOnCpus& training, Log& log) {
    auto iterator = make.by_function({9, 14}).iterator();
    const auto validation = make.by_function({5, 2});
    while (const auto batch = iterator.next()) {
      record(log, *batch);
      training.step(*batch);
      for (const auto& each : validation) {  // without a call of its own in a step
        record(log, each);
        training.strategy.run([](ReplicaContext&, const at::Tensor& own) { return own.sum(); },
                              each);
      }
    }
  });
}

TEST(WorkerInput, TwoInputsOfAStepMayEndAtDifferentSteps) {
  expect_same_logs([](const InputMaker& make, TrainingOnCpus& training, Log& log) {
    auto first = make.by_function({9, 14}).iterator();
    auto second = make.by_function({4, 3}).iterator();
    while (const auto batch = first.next()) {
      record(log, *batch);
      if (const auto other = second.next()) record(log, *other);
      training.step(*batch);
    }
  });
}

TEST(WorkerInput, ALostWorkerIsNamedInTheStepThatWasAgreedOn) {
  std::atomic<bool> is_named = false;
  const Error error = error_from([&] {
    run_workers({1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
      Signal read;
      const InputMaker make{.strategy = strategy, .read = read, .ahead = kAll};
      TrainingOnCpus training(strategy);
      auto iterator = make.by_function({12, 12}).iterator();
      training.step(*iterator.next());
      training.step(*iterator.next());
      if (strategy.worker_index() == 1) throw Error(ErrorCode::kInternal, "worker 1 fell over");
      const Error lost = error_from([&] { training.step(*iterator.next()); });
      is_named = lost.code() == ErrorCode::kUnavailable && mentions(lost, "/job:worker/task:1");
    });
  });
  EXPECT_TRUE(mentions(error, "fell over")) << error.what();
  EXPECT_TRUE(is_named);
}

}  // namespace
}  // namespace brigade::distribute
