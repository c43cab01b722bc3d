// With every way to shard a dataset over workers, an epoch has every example once, and the training
// result is that of one replica on the examples of the same steps. Here the workers are threads.
#include <ATen/ops/arange.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <mutex>
#include <optional>

#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/testing/waiting.h"
#include "brigade/data/core/source.h"
#include "brigade/data/sources/files.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/io/state_json.h"
#include "brigade/models/mlp.h"
#include "brigade/optim/sgd.h"
#include "tests/parity/ledger.h"
#include "tests/parity/training.h"

namespace brigade::parity {
namespace {

using distribute::AutoShardPolicy;
using distribute::error_from;
using distribute::mentions;
using distribute::MultiWorkerMirroredStrategy;
using distribute::ReplicaContext;
using distribute::run_workers;
using Ids = data::Dataset<at::Tensor>;
using Numbers = std::vector<std::int64_t>;
using Layout = std::vector<int>;  // replicas of each worker
using Steps = std::vector<Numbers>;

const std::vector<Layout> kLayouts = {{1},    {2},       {1, 1},    {2, 2},
                                      {2, 1}, {1, 1, 1}, {2, 2, 2}, {1, 1, 1, 1}};

/// Files of consecutive ids, with these sizes. Their names encode their contents.
Ids files_of(const Numbers& sizes) {
  std::vector<io::Path> names;
  std::int64_t first = 0;
  for (const std::int64_t size : sizes) {
    names.push_back(base::str_cat("ids/", first, "+", size, ".", names.size()));
    first += size;
  }
  return data::from_files<at::Tensor>(names, [](const io::Path& path) {
    const std::string name = path.filename().string();
    const std::int64_t begin = std::stoll(name);
    return input::from_tensor_slices(
        at::arange(begin, begin + std::stoll(name.substr(name.find('+') + 1))));
  });
}

std::int64_t total(const Numbers& sizes) {
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) sum += size;
  return sum;
}

/// Uneven files, with and without examples for all workers, as many files as workers or more.
const std::vector<Numbers> kFileSizes = {
    {1, 7, 0, 5}, {0, 9, 0, 0}, {4, 4, 4, 4}, {1, 7, 0, 5, 11, 2, 0, 3, 3}, {23, 1, 1, 1, 1}};

Numbers ids_of(const distribute::PerReplica<at::Tensor>& batch) {
  Numbers ids;
  for (const at::Tensor& local_batch : batch.values()) {
    for (std::int64_t i = 0; i < local_batch.numel(); ++i)
      ids.push_back(local_batch[i].item<std::int64_t>());
  }
  return ids;
}

/// The ids on which each worker trains in an epoch, by step.
std::vector<Steps> epoch_of(const Layout& layout, const Ids& batches, AutoShardPolicy policy) {
  std::mutex mutex;
  std::vector<Steps> all(layout.size());
  run_workers(layout, [&](MultiWorkerMirroredStrategy& strategy) {
    Steps steps;
    for (const auto& batch : strategy.distribute(batches, {.auto_shard = policy}))
      steps.push_back(ids_of(batch));
    const std::lock_guard lock(mutex);
    all[static_cast<std::size_t>(strategy.worker_index())] = std::move(steps);
  });
  return all;
}

void expect_each_seen(const std::vector<Steps>& workers, std::int64_t count, int times) {
  Ledger ledger;
  for (const Steps& steps : workers) {
    EXPECT_EQ(steps.size(), workers[0].size()) << "no worker stops before the others";
    for (const Numbers& ids : steps) ledger.add(at::tensor(ids, at::kLong));
  }
  ledger.expect_each(count, times);
}

TEST(Sharding, EveryExampleOfAnEpochIsSeenOnce) {
  for (const AutoShardPolicy policy :
       {AutoShardPolicy::kFile, AutoShardPolicy::kData, AutoShardPolicy::kHint}) {
    for (const Layout& layout : kLayouts) {
      for (const Numbers& sizes : kFileSizes) {
        SCOPED_TRACE(base::str_cat("by ", distribute::to_string(policy), " on ", layout.size(),
                                   " x ", layout[0], ", files of ", base::join(sizes, ", ")));
        const Ids ids = files_of(sizes).shuffle(3).shard_hint().shuffle(7);
        expect_each_seen(epoch_of(layout, ids.batch(5), policy), total(sizes), 1);
      }
    }
  }
}

/// Ids that `worker` makes on four threads. On worker 1 the first id is made last: in a relaxed
/// order its position differs from that on the other workers.
Ids made_unevenly(int worker, std::optional<data::Order> order) {
  const auto is_made = std::make_shared<std::promise<void>>();
  const std::shared_future<void> fourth(is_made->get_future());
  return input::from_tensor_slices(at::arange(22))
      .map(
          [=](const at::Tensor& id) {
            if (id.item<std::int64_t>() == 3) is_made->set_value();
            if (id.item<std::int64_t>() == 0 && worker == 1)
              fourth.wait_for(concurrency::testing::kLong);
            return id;
          },
          {.parallelism = 4, .order = order});
}

TEST(Sharding, ByDataWithARelaxedOrderNoExampleIsLostOrRepeated) {
  for (const Layout& layout : {Layout{1, 1}, Layout{2, 1}}) {
    for (const bool is_relaxed_as_a_whole : {false, true}) {
      Ledger ledger;
      run_workers(layout, [&](MultiWorkerMirroredStrategy& strategy) {
        const int worker = strategy.worker_index();
        const Ids ids = is_relaxed_as_a_whole
                            ? made_unevenly(worker, {})
                                  .with_options({.order = data::Order::kRelaxed})
                                  .batch(4)
                                  .prefetch(2)
                            : made_unevenly(worker, data::Order::kRelaxed).batch(4);
        for (const auto& batch : strategy.distribute(ids)) {
          for (const at::Tensor& local_batch : batch.values()) ledger.add(local_batch);
        }
      });
      ledger.expect_each(22, 1);
    }
  }
}

TEST(Sharding, RepeatedExamplesAreSeenAsOften) {
  for (const Layout& layout : kLayouts) {
    const Numbers sizes = {1, 7, 0, 5, 4};
    const Ids ids = files_of(sizes).shuffle(4).repeat(2).batch(4).prefetch(2);
    expect_each_seen(epoch_of(layout, ids, AutoShardPolicy::kFile), total(sizes), 2);
    expect_each_seen(epoch_of(layout, ids, AutoShardPolicy::kAuto), total(sizes), 2);
    const Ids repeated_batches = files_of(sizes).batch(4).repeat(2);
    expect_each_seen(epoch_of(layout, repeated_batches, AutoShardPolicy::kFile), total(sizes), 2);
  }
}

// Measured with TensorFlow, policy FILE: 2 files of 6, batches of 4.
TEST(Sharding, ByFileABatchMakesAStepForEachWorker) {
  EXPECT_EQ(epoch_of({1, 1}, files_of({6, 6}).batch(4), AutoShardPolicy::kFile),
            (std::vector<Steps>{{{0, 1}, {2, 3}, {4, 5}}, {{6, 7}, {8, 9}, {10, 11}}}));
}

// Measured with TensorFlow: a worker whose data ends first gets empty batches.
TEST(Sharding, ByFileAWorkerWhoseFilesEndFirstGetsEmptyBatches) {
  EXPECT_EQ(epoch_of({1, 1}, files_of({4, 6}).batch(4), AutoShardPolicy::kFile),
            (std::vector<Steps>{{{0, 1}, {2, 3}, {}}, {{4, 5}, {6, 7}, {8, 9}}}));
  EXPECT_EQ(epoch_of({1, 1}, files_of({0, 4}).batch(4), AutoShardPolicy::kFile),
            (std::vector<Steps>{{{}, {}}, {{0, 1}, {2, 3}}}));
}

// The size of batches is not known then: the largest one counts as full.
TEST(Sharding, ByFileAShardSmallerThanABatchMakesAsManySteps) {
  EXPECT_EQ(epoch_of({1, 1}, files_of({2, 6}).batch(4), AutoShardPolicy::kFile),
            (std::vector<Steps>{{{0}, {1}, {}}, {{2, 3}, {4, 5}, {6, 7}}}));
}

// Measured with TensorFlow, policy AUTO without files.
TEST(Sharding, ByDataABatchIsSplitOverTheWorkers) {
  const Ids numbers = input::from_tensor_slices(at::arange(9));
  EXPECT_EQ(epoch_of({1, 1}, numbers.batch(3), AutoShardPolicy::kAuto),
            (std::vector<Steps>{{{0, 1}, {3, 4}, {6, 7}}, {{2}, {5}, {8}}}));
  const Ids whole = numbers.batch(4, {.remainder = data::Remainder::kDrop});
  EXPECT_EQ(epoch_of({1, 1}, whole, AutoShardPolicy::kAuto),
            (std::vector<Steps>{{{0, 1}, {4, 5}}, {{2, 3}, {6, 7}}}));
}

// Measured with TensorFlow, policy OFF: each example is trained on twice.
TEST(Sharding, WithoutShardingEveryWorkerSeesAllExamples) {
  const Steps all = {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8}};
  const Ids batches = input::from_tensor_slices(at::arange(9)).batch(4);
  EXPECT_EQ(epoch_of({1, 1}, batches, AutoShardPolicy::kOff), (std::vector<Steps>{all, all}));
}

// TensorFlow's batch_sizes_for_worker: 7 over 2 workers with 2 replicas each is {2, 2, 2, 1} and
// {2, 1, 2, 2}.
TEST(Sharding, AnUnevenBatchIsSplitOverWorkersWithSeveralReplicas) {
  const Ids two_files = files_of({7, 7}).batch(7);
  const std::map<AutoShardPolicy, std::vector<std::vector<Steps>>> expected = {
      {AutoShardPolicy::kFile,
       {{{{0, 1}, {2, 3}}, {{4, 5}, {6}}}, {{{7, 8}, {9}}, {{10, 11}, {12, 13}}}}},
      {AutoShardPolicy::kData,
       {{{{0, 1}, {2, 3}}, {{7, 8}, {9, 10}}}, {{{4, 5}, {6}}, {{11, 12}, {13}}}}}};
  for (const auto& [policy, workers] : expected) {
    std::mutex mutex;
    run_workers({2, 2}, [&](MultiWorkerMirroredStrategy& strategy) {
      std::vector<Steps> own;  // [step][replica]
      for (const auto& batch : strategy.distribute(two_files, {.auto_shard = policy})) {
        own.emplace_back();
        for (const at::Tensor& local_batch : batch.values())
          own.back().push_back(ids_of(distribute::PerReplica<at::Tensor>({local_batch})));
        EXPECT_EQ(batch.examples()->global, 7);
      }
      const std::lock_guard lock(mutex);
      EXPECT_EQ(own, workers[static_cast<std::size_t>(strategy.worker_index())])
          << distribute::to_string(policy) << ", worker " << strategy.worker_index();
    });
  }
}

TEST(Sharding, ByHintEveryWorkerTakesItsShardOfElements) {
  const Ids ids = input::from_tensor_slices(at::arange(8)).shard_hint().batch(4);
  EXPECT_EQ(epoch_of({1, 1}, ids, AutoShardPolicy::kHint),
            (std::vector<Steps>{{{0, 2}, {4, 6}}, {{1, 3}, {5, 7}}}));
}

TEST(Sharding, AStepByFileIsOneGlobalBatchWhileAllHaveData) {
  for (const Layout& layout : {Layout{1, 1}, Layout{2, 2}, Layout{1, 1, 1}}) {
    std::mutex mutex;
    run_workers(layout, [&](MultiWorkerMirroredStrategy& strategy) {
      Numbers sizes;
      const auto dataset = strategy.distribute(files_of({21, 21, 21, 21, 21, 21}).batch(7),
                                               {.auto_shard = AutoShardPolicy::kFile});
      EXPECT_EQ(dataset.cardinality(), data::kUnknown);
      for (const auto& batch : dataset) sizes.push_back(batch.examples()->global);
      const std::lock_guard lock(mutex);
      EXPECT_EQ(sizes, Numbers(18, 7)) << layout.size() << " x " << layout[0];
    });
  }
}

TEST(Sharding, EachEpochHasAnotherOrderAndEachExampleOnce) {
  std::mutex mutex;
  std::map<int, Steps> epochs;  // [epoch] of worker 0
  Ledger ledger;
  run_workers({1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto dataset = strategy.distribute(files_of({9, 11, 4}).shuffle(20).batch(4));
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (const auto& batch : dataset) {
        const std::lock_guard lock(mutex);
        if (strategy.worker_index() == 0) epochs[epoch].push_back(ids_of(batch));
        for (const at::Tensor& local_batch : batch.values()) ledger.add(local_batch);
      }
    }
  });
  ledger.expect_each(24, 2);
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST(Sharding, AnEpochResumesExactlyWhereItWasSaved) {
  for (const AutoShardPolicy policy : {AutoShardPolicy::kFile, AutoShardPolicy::kData,
                                       AutoShardPolicy::kHint, AutoShardPolicy::kOff}) {
    for (const Layout& layout : {Layout{1, 1}, Layout{2, 1}, Layout{2, 2}, Layout{1, 1, 1}}) {
      run_workers(layout, [&](MultiWorkerMirroredStrategy& strategy) {
        const Ids ids = files_of({1, 7, 0, 5, 11}).shuffle(4).shard_hint().batch(5).prefetch(1);
        const auto dataset = strategy.distribute(ids, {.auto_shard = policy});
        auto iterator = dataset.iterator();
        std::vector<io::StateTree> states = {iterator.save()};
        Steps steps;
        while (const auto batch = iterator.next()) {
          steps.push_back(ids_of(*batch));
          states.push_back(iterator.save());
        }
        for (std::size_t done = 0; done < states.size(); ++done) {
          auto again = dataset.iterator();  // of another epoch, until it is restored
          again.restore(io::from_json(io::to_json(states[done]).json));
          Steps rest;
          while (const auto batch = again.next()) rest.push_back(ids_of(*batch));
          EXPECT_EQ(rest, Steps(steps.begin() + static_cast<std::ptrdiff_t>(done), steps.end()))
              << "by " << distribute::to_string(policy) << ", after " << done << " steps";
        }
      });
    }
  }
}

// With another number of replicas on the same workers the rest comes in other steps, without
// repetition.
TEST(Sharding, AnEpochResumesWithAnotherNumberOfReplicas) {
  io::StateTree state;
  Ledger ledger;
  std::mutex mutex;
  const Ids ids = files_of({1, 7, 0, 5, 11}).shuffle(4).batch(5);
  run_workers({2, 2}, [&](MultiWorkerMirroredStrategy& strategy) {
    auto iterator = strategy.distribute(ids).iterator();
    for (int step = 0; step < 3; ++step) {
      const auto batch = iterator.next();
      for (const at::Tensor& local_batch : batch->values()) ledger.add(local_batch);
    }
    const io::StateTree saved = iterator.save();
    const std::lock_guard lock(mutex);
    state = saved;
  });
  run_workers({1, 2}, [&](MultiWorkerMirroredStrategy& strategy) {
    auto iterator = strategy.distribute(ids).iterator();
    iterator.restore(state);
    while (const auto batch = iterator.next()) {
      for (const at::Tensor& local_batch : batch->values()) ledger.add(local_batch);
    }
  });
  ledger.expect_each(24, 1);
  const Error error = error_from([&] {
    run_workers({1, 1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
      strategy.distribute(ids).iterator().restore(state);
    });
  });
  EXPECT_TRUE(mentions(error, "saved by 2 workers and is restored by 3")) << error.what();
  const Error by_data = error_from([&] {
    run_workers({1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
      strategy.distribute(ids, {.auto_shard = AutoShardPolicy::kData}).iterator().restore(state);
    });
  });
  EXPECT_TRUE(mentions(by_data, "each worker reads its own data")) << by_data.what();
}

TEST(Sharding, FewerFilesThanWorkersAreShardedByDataAndLogged) {
  std::vector<std::string> lines;  // the sink is called by one thread at a time
  base::set_log_sink([&](base::LogLevel, std::string_view line) { lines.emplace_back(line); });
  const auto workers = epoch_of({1, 1, 1}, files_of({4, 9}).batch(5), AutoShardPolicy::kAuto);
  base::set_log_sink({});
  expect_each_seen(workers, 13, 1);
  const auto says_so = [](const std::string& line) {
    return line.find("2 files and the job 3 workers") != std::string::npos;
  };
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(), says_so), 1) << base::join(lines, "\n");
  const Error error = error_from([] {
    epoch_of({1, 1, 1}, files_of({4, 9}).batch(5), AutoShardPolicy::kFile);
  });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "2 files for 3 workers")) << error.what();
}

// By file each worker would train on its first 6 examples.
TEST(Sharding, TakeCountsOverAllWorkers) {
  const auto workers = epoch_of({1, 1}, files_of({7, 7}).take(6).batch(2), AutoShardPolicy::kAuto);
  expect_each_seen(workers, 6, 1);
}

TEST(Sharding, WorkersWithDifferentListsOfFilesAreRefused) {
  const Error error = error_from([] {
    run_workers({1, 1}, [](MultiWorkerMirroredStrategy& strategy) {
      const Ids ids = strategy.worker_index() == 0 ? files_of({3, 4}) : files_of({4, 3});
      for (const auto& batch : strategy.distribute(ids.batch(2))) (void)batch;
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "worker 1 has another list")) << error.what();
}

/// The error of both workers for datasets, one each, that do not match.
std::string refusal_of(const std::vector<Ids>& datasets, distribute::InputOptions options = {}) {
  std::mutex mutex;
  std::vector<std::string> refusals;
  run_workers({1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto own = static_cast<std::size_t>(strategy.worker_index());
    auto iterator = strategy.distribute(datasets[own], options).iterator();
    const Error error = error_from([&] { iterator.next(); });
    const std::lock_guard lock(mutex);
    refusals.emplace_back(error.what());
  });
  EXPECT_EQ(refusals[0], refusals[1]);
  return refusals[0];
}

TEST(Sharding, WorkersThatWouldShardInDifferentWaysAreRefused) {
  const std::string refusal =
      refusal_of({files_of({3, 4}).batch(2), input::from_tensor_slices(at::arange(7)).batch(2)});
  EXPECT_NE(refusal.find("another AutoShardPolicy than worker 0, data and not file"),
            std::string::npos)
      << refusal;
}

TEST(Sharding, WorkersWithDifferentDatasetsAreRefused) {
  const Ids ids = input::from_tensor_slices(at::arange(12));
  const auto by_cycles = [&](std::int64_t length) {
    return ids
        .interleave(
            [](const at::Tensor& id) {
              return data::from_elements<at::Tensor>({id, id});
            },
            {.cycle_length = length})
        .batch(3);
  };
  const std::string sizes = refusal_of({ids.batch(2), ids.batch(3)});
  EXPECT_NE(sizes.find("than worker 0, batch(3) and not batch(2)"), std::string::npos) << sizes;
  const std::string cycles = refusal_of({by_cycles(2), by_cycles(3)});
  EXPECT_NE(cycles.find("interleave(cycle 3, block 1) and not interleave(cycle 2"),
            std::string::npos)
      << cycles;
}

TEST(Sharding, WorkersInDifferentEpochsAreRefused) {
  const Error error = error_from([] {
    run_workers({1, 1}, [](MultiWorkerMirroredStrategy& strategy) {
      const auto dataset =
          strategy.distribute(input::from_tensor_slices(at::arange(8)).shuffle(8).batch(2));
      if (strategy.worker_index() == 1) dataset.iterator();  // a look at it, before the training
      dataset.iterator().next();
    });
  });
  EXPECT_TRUE(mentions(error, "worker 1 has another epoch than worker 0, 1 and not 0"))
      << error.what();
}

TEST(Sharding, WithoutShardingWorkersMayHaveSeparateDatasets) {
  Ledger ledger;
  run_workers({1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
    const Ids own = input::from_tensor_slices(at::arange(8)).shard(2, strategy.worker_index());
    for (const auto& batch :
         strategy.distribute(own.batch(2), {.auto_shard = AutoShardPolicy::kOff})) {
      for (const at::Tensor& local_batch : batch.values()) ledger.add(local_batch);
    }
  });
  ledger.expect_each(8, 1);
}

TEST(Sharding, AnEmptyShardHasTheShapeOfTheOthersBatches) {
  run_workers({1, 1}, [](MultiWorkerMirroredStrategy& strategy) {
    const auto rows = files_of({0, 3}).map([](const at::Tensor& id) {
      return id.to(at::kFloat).expand({2, 4});
    });
    for (const auto& batch : strategy.distribute(rows.batch(2))) {
      EXPECT_EQ(batch[0].sizes().slice(1), at::IntArrayRef({2, 4}));
      EXPECT_EQ(batch[0].scalar_type(), at::kFloat);
    }
  });
}

/// The weights after training on batches of ids, and the ids of each step.
struct Training {
  Weights weights;
  Steps steps;
};

Training trained_on(distribute::Strategy& strategy, const Ids& batches, AutoShardPolicy policy) {
  const at::Tensor table = at::sin(at::arange(40 * 28 * 28, at::kDouble)).view({40, 1, 28, 28});
  const auto model = strategy.create([] {
    auto module = std::make_shared<models::Mlp>();
    module->to(at::kDouble);
    return module;
  });
  const auto optimizer =
      strategy.optimizer(model, optim::Sgd{.learning_rate = 0.02, .momentum = 0.9});
  Training training{.weights = {.before = read_all(model)}, .steps = {}};
  for (const auto& variable : model.variables()) training.weights.names.push_back(variable.name());
  for (const auto& batch : strategy.distribute(batches, {.auto_shard = policy})) {
    training.steps.push_back(ids_of(batch));
    strategy.run(
        [&](ReplicaContext&, const at::Tensor& ids) {
          optimizer.minimize(layers::losses::sparse_softmax_cross_entropy(
              model(at::index_select(table, 0, ids)), at::remainder(ids, 10)));
        },
        batch);
  }
  training.weights.after = read_all(model);
  return training;
}

TEST(Sharding, AnEpochByFileGivesTheResultOfOneReplicaOnTheSameSteps) {
  for (const Layout& layout : {Layout{1, 1}, Layout{2, 2}, Layout{2, 1}, Layout{1, 1, 1}}) {
    std::mutex mutex;
    std::map<int, Training> workers;
    run_workers(layout, [&](MultiWorkerMirroredStrategy& strategy) {
      Training own = trained_on(strategy, files_of({1, 14, 0, 9, 11}).shuffle(5).batch(6),
                                AutoShardPolicy::kFile);
      const std::lock_guard lock(mutex);
      workers[strategy.worker_index()] = std::move(own);
    });
    std::vector<at::Tensor> union_of_steps;
    for (std::size_t step = 0; step < workers[0].steps.size(); ++step) {
      Numbers ids;
      for (const auto& [worker, own] : workers)
        ids.insert(ids.end(), own.steps[step].begin(), own.steps[step].end());
      union_of_steps.push_back(at::tensor(ids, at::kLong));
    }
    distribute::MirroredStrategy one(distribute::cpus(1));
    const Training expected = trained_on(one, data::from_elements(union_of_steps), {});
    expect_same(workers[0].weights, expected.weights, 1e-10,
                base::str_cat("on ", layout.size(), " x ", layout[0]));
    for (const auto& [worker, own] : workers) {
      for (std::size_t i = 0; i < own.weights.after.size(); ++i)
        EXPECT_TRUE(own.weights.after[i].equal(workers[0].weights.after[i])) << "worker " << worker;
    }
  }
}

}  // namespace
}  // namespace brigade::parity
