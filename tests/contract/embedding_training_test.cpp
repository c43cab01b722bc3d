// Trainings of models with embeddings: every strategy gives the same weights, and parameter servers
// transfer the rows of the batch alone.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/distribute/strategies/mirrored_strategy.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/layers/embedding.h"
#include "brigade/layers/embedding_lookup.h"
#include "brigade/optim/adagrad.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/lars.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/forwarding_service.h"
#include "brigade/ps/service_messages.h"
#include "brigade/ps/testing/job_of_threads.h"

namespace brigade::ps {
namespace {

using distribute::Strategy;
using testing::expect_equal_bits;
using testing::JobOfThreads;
using testing::ServiceCall;
using testing::Weights;
using testing::weights_of;

constexpr std::int64_t kBatch = 8;

struct RecommenderOptions {
  std::int64_t users = 20;
  std::int64_t items = 30;
  std::int64_t dim = 16;  // 16: rows fill whole vectors of the kernels
  int partitions = 1;
  bool prefetches = false;
};

/// How much users like items.
struct Recommender : torch::nn::Module {
  explicit Recommender(const RecommenderOptions& options)
      : users(register_module("users", table_of(options.users, options))),
        items(register_module("items", table_of(options.items, options))),
        scale(register_parameter("scale", testing::waves(1, options.dim, 0.3)[0])),
        prefetches(options.prefetches) {}
  static std::shared_ptr<layers::Embedding> table_of(std::int64_t rows,
                                                     const RecommenderOptions& options) {
    return std::make_shared<layers::Embedding>(
        layers::EmbeddingOptions{.vocabulary_size = rows,
                                 .embedding_dim = options.dim,
                                 .partitions = options.partitions,
                                 .initializer = variables::random_uniform_initializer(-1, 1)});
  }
  at::Tensor forward(const at::Tensor& user_ids, const at::Tensor& item_ids) const {
    if (prefetches) layers::prefetch_rows({{users->parts(), user_ids}, {items->parts(), item_ids}});
    return (users->forward(user_ids) * items->forward(item_ids) * scale).sum(1);
  }
  std::shared_ptr<layers::Embedding> users, items;
  at::Tensor scale;
  bool prefetches;
};

/// Made-up ids, some of which occur twice in a batch.
at::Tensor ids_of(std::int64_t step, int part, std::int64_t rows) {
  return at::arange(kBatch, at::kLong).mul(7 + step).add(3 * step + 5 * part).remainder(rows);
}

at::Tensor preference_loss(const Recommender& model, std::int64_t step, int part,
                           const RecommenderOptions& options) {
  const at::Tensor users = ids_of(step, part, options.users);
  const at::Tensor items = ids_of(step + 1, part, options.items);
  return (model.forward(users, items) - users.sub(items).to(at::kFloat).sin()).square();
}

struct RecommenderPlan {
  optim::UpdateRulePtr rule = optim::Sgd{.learning_rate = 0.05}.rule();
  RecommenderOptions model = {};
  std::int64_t steps = 6;
  int accumulate = 1;
  bool aggregates = false;  ///< sums the gradients, and applies the sums
};

/// The weights after training, those of the whole tables.
Weights trained_recommender(Strategy& strategy, const RecommenderPlan& plan) {
  const auto model = strategy.create<Recommender>(plan.model);
  const auto optimizer =
      strategy.make_optimizer(model.variables(), plan.rule, {.accumulate = plan.accumulate});
  for (std::int64_t step = 0; step < plan.steps; ++step) {
    strategy.run([&](distribute::ReplicaContext& context) {
      const int part = strategy.worker_index() * strategy.num_local_replicas() + context.local_id;
      const at::Tensor loss = preference_loss(model.local(), step, part, plan.model);
      if (!plan.aggregates) {
        optimizer.minimize(loss);
      } else {
        optimizer.apply_gradients(optimizer.aggregate(optimizer.compute_gradients(loss)));
      }
    });
  }
  strategy.fetch_state();
  return weights_of(model.variables());
}

Weights recommender_on_one_device(const RecommenderPlan& plan) {
  distribute::OneDeviceStrategy strategy("cpu:0");
  return trained_recommender(strategy, plan);
}

TEST(EmbeddingTraining, OneWorkerGivesTheBitsOfOneDevice) {
  for (const optim::UpdateRulePtr& rule :
       {optim::Sgd{.learning_rate = 0.05}.rule(), optim::Adagrad{.learning_rate = 0.1}.rule()}) {
    for (const RecommenderOptions& options :
         {RecommenderOptions{}, {.dim = 5}, {.partitions = 2}, {.dim = 3, .partitions = 3}}) {
      const RecommenderPlan plan{.rule = rule, .model = options};
      const Weights expected = recommender_on_one_device(plan);
      for (const int servers : {1, 2, 3}) {
        JobOfThreads job(servers, 1);
        const auto strategy = job.join(0);
        expect_equal_bits(trained_recommender(*strategy, plan), expected,
                          base::str_cat(rule->name(), ", dim ", options.dim, ", partitions ",
                                        options.partitions, ", ", servers, " servers"));
        EXPECT_EQ(job.step(), plan.steps);
      }
    }
  }
}

TEST(EmbeddingTraining, RulesOfWholeVariablesGetDenseGradientsWithTheSameBits) {
  const RecommenderPlan plan{.rule = optim::Lars{.learning_rate = 10}.rule()};
  JobOfThreads job(2, 1);
  const auto strategy = job.join(0);
  expect_equal_bits(trained_recommender(*strategy, plan), recommender_on_one_device(plan), "lars");
}

TEST(EmbeddingTraining, EachModeAndAccumulationGiveOneWorkerTheSameBits) {
  for (const int accumulate : {1, 2}) {
    const RecommenderPlan plan{.accumulate = accumulate};
    const Weights expected = recommender_on_one_device(plan);
    for (const UpdateMode mode : {UpdateMode::kAsync, UpdateMode::kBounded, UpdateMode::kSync}) {
      JobOfThreads job(2, 1);
      const auto strategy = job.join(0, {.mode = mode});
      expect_equal_bits(trained_recommender(*strategy, plan), expected,
                        base::str_cat("mode ", static_cast<int>(mode), ", ", accumulate));
    }
  }
}

TEST(EmbeddingTraining, PrefetchedRowsGiveTheSameBitsInOneRoundTripAStep) {
  const Weights expected = recommender_on_one_device({});
  for (const bool prefetches : {false, true}) {
    JobOfThreads job(1, 1);
    std::atomic<int> exchanges = 0;
    job.servers()[0].before_calls([&exchanges](ServiceCall call) {
      if (call == ServiceCall::kExchange) ++exchanges;
    });
    const auto strategy = job.join(0);
    const RecommenderPlan plan{.model = {.prefetches = prefetches}};
    expect_equal_bits(trained_recommender(*strategy, plan), expected, "prefetched");
    // One at the start; in each step those of the rows, and the push; one that waits for the disk.
    EXPECT_EQ(exchanges, 1 + plan.steps * (prefetches ? 2 : 3) + 1);
    job.servers()[0].before_calls({});
  }
}

TEST(EmbeddingTraining, TablesInPartsOnSeveralServersGiveTheSameBits) {
  const RecommenderPlan plan;
  const Weights expected = recommender_on_one_device(plan);
  for (const std::int64_t axis : {0, 1}) {
    JobOfThreads job(2, 1);
    const auto strategy =
        job.join(0, {.variable_partitioner = [axis](at::IntArrayRef shape, at::ScalarType) {
                   std::vector<std::int64_t> counts(shape.size(), 1);
                   if (shape.size() == 2)
                     counts[static_cast<std::size_t>(axis)] = axis == 0 ? 4 : 2;
                   return counts;
                 }});
    expect_equal_bits(trained_recommender(*strategy, plan), expected, base::str_cat("axis ", axis));
  }
}

TEST(EmbeddingTraining, ReplicasOfAWorkerGiveTheBitsOfMirrored) {
  for (const bool aggregates : {false, true}) {
    const RecommenderPlan plan{.aggregates = aggregates};
    distribute::MirroredStrategy mirrored(distribute::cpus(2));
    const Weights expected = trained_recommender(mirrored, plan);
    JobOfThreads job(2, 1);
    const auto strategy = job.join(0, {.devices = distribute::cpus(2).devices});
    ASSERT_EQ(strategy->num_replicas_in_sync(), 2);
    expect_equal_bits(trained_recommender(*strategy, plan), expected,
                      aggregates ? "sums" : "gradients");
  }
}

TEST(EmbeddingTraining, SynchronousWorkersGiveTheBitsOfMultiWorkerMirrored) {
  const RecommenderPlan plan;
  Weights expected;
  distribute::run_workers({1, 1}, [&](distribute::MultiWorkerMirroredStrategy& strategy) {
    Weights weights = trained_recommender(strategy, plan);
    if (strategy.is_chief()) expected = std::move(weights);
  });
  for (const int servers : {1, 2}) {
    JobOfThreads job(servers, 2);
    std::mutex mutex;  // guards `all`
    std::map<int, Weights> all;
    job.run({.mode = UpdateMode::kSync}, [&](ParameterServerStrategy& strategy) {
      Weights weights = trained_recommender(strategy, plan);
      const std::lock_guard lock(mutex);
      all[strategy.worker_index()] = std::move(weights);
    });
    EXPECT_EQ(job.step(), plan.steps);
    expect_equal_bits(all.at(0), expected, base::str_cat(servers, " servers"));
    expect_equal_bits(all.at(1), expected, base::str_cat(servers, " servers, worker 1"));
  }
}

/// Sums the vectors of ids: each id's sum can be learned on its own.
struct SumOfRows : torch::nn::Module {
  SumOfRows() {
    table =
        register_module("table", std::make_shared<layers::Embedding>(layers::EmbeddingOptions{
                                     .vocabulary_size = 20, .embedding_dim = 16, .partitions = 2}));
  }
  at::Tensor loss(const at::Tensor& ids) const {
    return (table->forward(ids).sum(1) - ids.to(at::kFloat).sin()).square();
  }
  std::shared_ptr<layers::Embedding> table;
};

TEST(EmbeddingTraining, AsynchronousWorkersConverge) {
  JobOfThreads job(2, 2);
  std::mutex mutex;  // guards `losses`
  std::vector<double> losses;
  job.run({}, [&](ParameterServerStrategy& strategy) {
    const auto model = strategy.create<SumOfRows>();
    const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.02});
    for (std::int64_t step = 0; step < 200; ++step)
      strategy.run([&] { sgd.minimize(model->loss(ids_of(step, strategy.worker_index(), 20))); });
    double loss = 0;
    strategy.run([&] {  // a run that only evaluates fetches the rows that it reads
      const at::NoGradGuard no_grad;
      loss = model->loss(at::arange(20, at::kLong)).max().item<double>();
    });
    const std::lock_guard lock(mutex);
    losses.push_back(loss);
  });
  ASSERT_EQ(losses.size(), 2u);
  for (const double loss : losses) EXPECT_LT(loss, 0.1) << "up to 1 at first";
  EXPECT_EQ(job.step(), 400);
}

TEST(EmbeddingTraining, ARunReadsTheRowsOfTheServers) {
  JobOfThreads job(2, 2);
  const auto chief = job.join(0), other = job.join(1);
  const auto table_of = [](ParameterServerStrategy& strategy) {
    const auto model = strategy.create<SumOfRows>();
    return std::pair(model, strategy.optimizer(model, optim::Sgd{.learning_rate = 1}));
  };
  const auto [model, sgd] = table_of(*chief);
  const auto [others_model, others_sgd] = table_of(*other);
  const at::Tensor ids = at::arange(20, at::kLong);
  chief->run([&, &model = model, &sgd = sgd] { sgd.minimize(model->loss(ids)); });
  other->run([&, &model = others_model, &sgd = others_sgd] { sgd.minimize(model->loss(ids)); });
  at::Tensor seen;
  chief->run([&, &model = model] {
    const at::NoGradGuard no_grad;
    seen = model->table->forward(ids.narrow(0, 5, 10)).clone();
  });
  other->fetch_state();
  std::vector<at::Tensor> parts;
  for (const variables::Variable& part : others_model.variables()) parts.push_back(part.read());
  EXPECT_TRUE(at::cat(parts).narrow(0, 5, 10).equal(seen)) << "with the other worker's update";
}

/// Counts the bytes of the messages of exchanges, as they would be sent.
class CountingService final : public ForwardingService<ParameterService> {
 public:
  CountingService(std::unique_ptr<ParameterService> service, std::atomic<std::int64_t>& bytes)
      : service_(std::move(service)), bytes_(bytes) {}

  ExchangeReply exchange(const std::string& token, const ExchangeRequest& request,
                         Time deadline) override {
    ExchangeReply reply = service_->exchange(token, request, deadline);
    bytes_ += static_cast<std::int64_t>(encode_message(to_message(request)).size());
    bytes_ += static_cast<std::int64_t>(encode_message(to_message(reply)).size());
    return reply;
  }
  void close() override { service_->close(); }

 private:
  void forward(ServiceMethod, Time, const Call& call) override { call(*service_); }

  const std::unique_ptr<ParameterService> service_;
  std::atomic<std::int64_t>& bytes_;
};

/// Of each step but the first, whose bytes include those of the whole tables.
std::int64_t bytes_of_a_step(const RecommenderOptions& options, UpdateMode mode) {
  std::atomic<std::int64_t> bytes = 0;
  JobOfThreads job(2, 1);
  std::vector<std::unique_ptr<ParameterService>> services;
  for (auto& each : job.servers().connect())
    services.push_back(std::make_unique<CountingService>(std::move(each), bytes));
  ParameterServerStrategy strategy(testing::config_of(testing::cluster_of(2, 1), 0),
                                   std::move(services),
                                   {.devices = {"cpu:0"},
                                    .allow_oversubscription = true,
                                    .mode = mode,
                                    .timeout = std::chrono::seconds(60),
                                    .server_timeout = std::chrono::seconds(60)});
  const auto model = strategy.create<Recommender>(options);
  const auto sgd = strategy.optimizer(model, optim::Sgd{});
  std::int64_t before = 0;
  constexpr std::int64_t kSteps = 5;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    strategy.run([&] { sgd.minimize(preference_loss(model.local(), step, 0, options)); });
    if (step == 0) before = bytes;
  }
  return (bytes - before) / (kSteps - 1);
}

TEST(EmbeddingTraining, AStepTransfersTheRowsOfItsBatchWhateverTheTablesLength) {
  for (const UpdateMode mode : {UpdateMode::kAsync, UpdateMode::kSync}) {
    const std::int64_t of_small = bytes_of_a_step({.users = 1'000, .items = 1'000}, mode);
    const std::int64_t of_large = bytes_of_a_step({.users = 50'000, .items = 50'000}, mode);
    // Both ways 8 rows of 2 tables, with 16 floats and an index each, and texts.
    const std::int64_t rows = 2 * kBatch * (2 * 16 * 4 + 2 * 8);
    EXPECT_LT(of_large, rows + 4'000) << "a table has 3,200,000 bytes";
    EXPECT_NEAR(static_cast<double>(of_large), static_cast<double>(of_small), 1'000)
        << "ids may occur twice in one of both";
  }
}

TEST(EmbeddingTraining, ATableThatIsAlsoUsedAsAWholeIsRefused) {
  JobOfThreads job(2, 1);
  const auto strategy = job.join(0);
  const auto model = strategy->create<SumOfRows>();
  const auto sgd = strategy->optimizer(model, optim::Sgd{});
  const auto error = distribute::error_from([&] {
    strategy->run([&] {
      const at::Tensor ids = at::arange(4, at::kLong);
      sgd.minimize(model->loss(ids).sum() + model->table->parts()[0].square().sum(),
                   distribute::LossScale::kSum);
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(distribute::mentions(error, "table.weight_0")) << error.what();
  EXPECT_TRUE(distribute::mentions(error, "embedding_lookup")) << error.what();
  EXPECT_EQ(job.step(), 0);
}

/// libtorch's own embedding, whose table is pulled as a whole.
struct TorchEmbedding : torch::nn::Module {
  explicit TorchEmbedding(bool is_sparse)
      : table(register_module(
            "table", torch::nn::Embedding(torch::nn::EmbeddingOptions(20, 5).sparse(is_sparse)))) {
    const at::NoGradGuard no_grad;
    table->weight.copy_(testing::waves(20, 5, 0.2));
  }
  torch::nn::Embedding table;
};

Weights trained_torch_embedding(Strategy& strategy, bool is_sparse) {
  const auto model = strategy.create<TorchEmbedding>(is_sparse);
  const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
  for (std::int64_t step = 0; step < 4; ++step)
    strategy.run([&] { sgd.minimize(model->table->forward(ids_of(step, 0, 20)).square().sum(1)); });
  return weights_of(model.variables());
}

TEST(EmbeddingTraining, TorchsEmbeddingWorksSparseOrNot) {
  distribute::OneDeviceStrategy device("cpu:0");
  const Weights expected = trained_torch_embedding(device, true);
  for (const bool is_sparse : {false, true}) {
    JobOfThreads job(2, 1);
    const auto strategy = job.join(0);
    const Weights weights = trained_torch_embedding(*strategy, is_sparse);
    ASSERT_EQ(weights.size(), 1u);
    const auto& [name, value] = *weights.begin();
    if (is_sparse) expect_equal_bits(weights, expected, "sparse");
    EXPECT_TRUE(value.allclose(expected.at(name))) << "sums of a row may be rounded otherwise";
  }
}

}  // namespace
}  // namespace brigade::ps
