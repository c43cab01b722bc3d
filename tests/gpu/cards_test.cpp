#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "brigade/checkpoint/saver.h"
#include "brigade/checkpoint/weights_hash.h"
#include "brigade/comm/local/local_group.h"
#include "brigade/comm/nccl/nccl.h"
#include "brigade/comm/packed_copies.h"
#include "brigade/comm/testing/rank_threads.h"
#include "brigade/device/backward_threads.h"
#include "brigade/device/device.h"
#include "brigade/device/event_timeline.h"
#include "brigade/device/memory_peak.h"
#include "brigade/device/stream.h"
#include "brigade/distribute/strategies/mirrored_strategy.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/input/image_normalizer.h"
#include "brigade/layers/losses.h"
#include "brigade/models/mnist_cnn.h"
#include "brigade/models/registry.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/clipping.h"
#include "brigade/optim/sgd.h"
#include "brigade/train/model/model.h"
#include "brigade/train/session/training_state.h"
#include "tests/parity/examples.h"

namespace brigade {
namespace {

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device::available_gpus().empty()) GTEST_SKIP() << "There is no GPU that CUDA shows.";
  }
};

std::unique_ptr<distribute::Strategy> gpus(int replicas) {
  distribute::MirroredOptions options{.logical_gpus_per_card = replicas, .seed = 5};
  for (int replica = 0; replica < replicas; ++replica)
    options.devices.push_back("gpu:" + std::to_string(replica));
  return std::make_unique<distribute::MirroredStrategy>(options);
}

struct Trained {
  std::vector<at::Tensor> weights;
  std::string hash;
};

/// The MNIST CNN after 20 steps of 32 examples in float32.
Trained train(distribute::Strategy& strategy) {
  const auto model = strategy.create<models::MnistCnn>();
  const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.01});
  int steps = 0;
  for (const auto& batch : strategy.distribute(parity::examples(64).batch(32).repeat())) {
    if (steps++ == 20) break;
    strategy.run(
        [&](const input::LabeledBatch& local) {
          sgd.minimize(
              layers::losses::sparse_softmax_cross_entropy(model(local.features), local.labels));
        },
        batch);
  }
  Trained trained;
  std::vector<checkpoint::NamedTensor> named;
  for (const auto& variable : model.variables()) {
    trained.weights.push_back(variable.read().to(at::kCPU));
    named.push_back({variable.name(), trained.weights.back()});
  }
  trained.hash = checkpoint::weights_sha256(named);
  return trained;
}

TEST_F(OnGpu, TwentyStepsOnOneTwoAndFourLogicalGpusAreThoseOfTheCpu) {
  distribute::OneDeviceStrategy cpu({.device = "cpu:0", .seed = 5});
  const Trained expected = train(cpu);
  for (const int replicas : {1, 2, 4}) {
    const Trained trained = train(*gpus(replicas));
    for (std::size_t i = 0; i < expected.weights.size(); ++i) {
      const double apart = (trained.weights[i] - expected.weights[i]).norm().item<double>();
      EXPECT_LE(apart, 1e-5 * expected.weights[i].norm().item<double>())
          << "variable " << i << " on " << replicas << " logical GPUs";
    }
  }
}

TEST_F(OnGpu, ReproducibleNumericsRepeatEveryBit) {
  for (const int replicas : {1, 4})
    EXPECT_EQ(train(*gpus(replicas)).hash, train(*gpus(replicas)).hash) << replicas;
}

TEST_F(OnGpu, TwoThousandReductionsOfFourLogicalGpusHaveNoWrongSum) {
  constexpr int kRanks = 4;
  constexpr int kRounds = 2000;
  std::atomic<int> wrong = 0;
  comm::run_ranks_successfully(kRanks, [&](comm::Communicator& ranks) {
    const c10::Device card(c10::kCUDA, 0);
    const device::StreamScope scope(device::make_stream({.torch_device = card}));
    const at::Tensor base = at::arange(100'000, at::TensorOptions(at::kFloat).device(card));
    for (int round = 0; round < kRounds; ++round) {
      const at::Tensor value = base + static_cast<double>(ranks.rank() + round % 7);
      ranks.all_reduce({&value, 1}, comm::ReduceOp::kSum)->wait();
      const at::Tensor expected = base * kRanks + static_cast<double>(6 + kRanks * (round % 7));
      if (!value.equal(expected)) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_F(OnGpu, NcclReducesAndClosesWithOneRank) {
  ASSERT_TRUE(comm::nccl_is_built_in());
  auto ranks = comm::make_nccl_communicators(
      {0}, comm::make_local_communicators(std::make_shared<comm::LocalGroup>(1)));
  const at::Tensor value =
      at::full({3}, 2.0, at::TensorOptions(at::kFloat).device(c10::Device(c10::kCUDA, 0)));
  ranks.front()->all_reduce({&value, 1}, comm::ReduceOp::kSum)->wait();
  EXPECT_EQ(value[2].item<float>(), 2);
  const auto sums = ranks.front()->sum_present({&value, 1}, {&value, 1});
  EXPECT_NO_THROW(ranks.front()->finish());
  EXPECT_EQ(sums[0][1].item<float>(), 2);
}

const c10::Device kCard(c10::kCUDA, 0);

TEST_F(OnGpu, CopyStreamsAreNeverReplicasStreams) {
  std::set<c10::StreamId> replicas;
  for (int i = 0; i < 40; ++i) replicas.insert(device::make_stream({.torch_device = kCard}).id());
  for (int i = 0; i < 40; ++i) {
    const device::CopyStream stream(kCard);
    const device::CopyStream::Scope scope(stream);
    EXPECT_FALSE(replicas.contains(device::current_stream(kCard).id()));
  }
}

TEST_F(OnGpu, TensorsAreCopiedToTheHostAndBackTogether) {
  const std::vector<at::Tensor> tensors = {
      at::rand({1000, 33}, at::TensorOptions(kCard)), at::rand({7}, at::TensorOptions(kCard)),
      at::arange(9, at::TensorOptions(at::kLong).device(kCard))};
  std::vector<at::Tensor> before;
  comm::PackedCopies copies;
  for (const at::Tensor& tensor : tensors) {
    before.push_back(tensor.cpu());
    copies.add(tensor);
  }
  copies.fetch();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_TRUE(copies.flat(i).equal(before[i].view(-1)));
    copies.flat(i).mul_(2);
  }
  copies.send_back(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    EXPECT_TRUE(tensors[i].cpu().equal(before[i] * 2));
}

TEST_F(OnGpu, ImagesAreNormalizedToTheBitsOfTheHost) {
  const input::ImageNormalizer normalizer(
      {.mean = image::kImageNetMean, .deviation = image::kImageNetDeviation});
  const at::Tensor images =
      at::arange(4 * 3 * 16 * 16, at::kInt).remainder(256).to(at::kByte).view({4, 3, 16, 16});
  EXPECT_TRUE(normalizer(images.to(kCard)).cpu().equal(normalizer(images)));
}

TEST_F(OnGpu, EventsMeasureTheCardsWork) {
  const device::StreamScope scope(device::make_stream({.torch_device = kCard}));
  const at::Tensor matrix = at::rand({2048, 2048}, at::TensorOptions(kCard));
  device::EventTimeline timeline(device::current_stream(kCard));
  timeline.mark();
  for (int i = 0; i < 20; ++i) matrix.matmul(matrix);
  timeline.mark();
  timeline.wait();
  EXPECT_GT(timeline.take().value_or(std::chrono::nanoseconds(0)), std::chrono::microseconds(100));
}

TEST_F(OnGpu, PeaksOfMemoryCountACardOnce) {
  constexpr std::int64_t kBytes = 64 << 20;
  at::empty({kBytes}, at::TensorOptions(at::kByte).device(kCard));
  const auto cards = device::available_gpus({.logical_gpus_per_card = 2});
  const auto peak = device::gpu_memory_peak(std::span(cards).first(1));
  ASSERT_TRUE(peak.has_value());
  EXPECT_GE(*peak, kBytes);
  EXPECT_EQ(device::gpu_memory_peak(std::span(cards).first(2)), peak);
}

TEST_F(OnGpu, SharesOfAStepAreTheCardsAndAddUpToOne) {
  const auto strategy = gpus(2);
  strategy->measure_steps(distribute::StepMeasuring::kOn);
  train(*strategy);
  for (const distribute::StepTimes& times : strategy->step_times()) {
    EXPECT_EQ(times.steps, 20);
    double sum = 0;
    for (const comm::StepPhase phase : comm::kStepPhases) sum += times.fraction(phase);
    EXPECT_NEAR(sum, 1.0, 1e-9);
    EXPECT_GT(times.fraction(comm::StepPhase::kCompute), 0.1);
  }
}

TEST_F(OnGpu, ACapturedEvaluationHasTheResultsOfAnEagerOne) {
  distribute::OneDeviceStrategy strategy({.device = "gpu:0", .seed = 5});
  const auto model = strategy.create<models::MnistCnn>();
  const auto logits = [&](const at::Tensor& images) {
    const at::NoGradGuard no_grad;
    return model(images);
  };
  auto compiled = strategy.compile(logits, {.warmup = 2});
  for (int step = 0; step < 6; ++step) {
    const at::Tensor images =
        at::rand({step == 5 ? 3 : 8, 1, 28, 28}, at::TensorOptions(c10::Device(c10::kCUDA, 0)));
    const at::Tensor got = compiled(images).values().front();
    EXPECT_TRUE(got.allclose(strategy.run(logits, images).values().front())) << step;
    EXPECT_EQ(compiled.eager_reason().empty(), step >= 2 && step < 5) << compiled.eager_reason();
  }
}

/// The weights after eight steps with Adam and dropout, whose rate changes in each.
enum class Steps { kRun, kCompiled };
std::vector<at::Tensor> weights_after(Steps how, int replicas) {
  const auto made = gpus(replicas);
  distribute::Strategy& strategy = *made;
  const auto model = strategy.create<models::MnistCnn>();
  const auto adam = strategy.optimizer(model, optim::Adam{.learning_rate = 1e-3});
  const auto body = [&](const at::Tensor& images) {
    distribute::Gradients gradients = adam.aggregate(
        adam.compute_gradients(model(images).square().mean(), distribute::LossScale::kSum));
    optim::clip_by_global_norm_(gradients, 0.1);
    adam.apply_gradients(gradients);
  };
  auto compiled = strategy.compile(body, {.warmup = 2});
  for (int step = 0; step < 8; ++step) {
    const at::Tensor images = at::full({8, 1, 28, 28}, 0.1 * step).to(c10::Device(c10::kCUDA, 0));
    adam.set_learning_rate(1e-3 / (1 + step));
    if (how == Steps::kRun) {
      strategy.run(body, images);
    } else {
      compiled(images);
    }
  }
  if (how == Steps::kCompiled) EXPECT_EQ(compiled.eager_reason(), "");
  EXPECT_EQ(adam.updates(), 8);
  EXPECT_EQ(adam.state().step(0), 8);
  std::vector<at::Tensor> weights;
  for (const auto& variable : model.variables()) weights.push_back(variable.read().to(at::kCPU));
  return weights;
}

TEST_F(OnGpu, ACapturedTrainingHasTheWeightsOfAnEagerOne) {
  for (const int replicas : {1, 2, 4}) {
    const auto run = weights_after(Steps::kRun, replicas);
    const auto compiled = weights_after(Steps::kCompiled, replicas);
    for (std::size_t i = 0; i < run.size(); ++i) {
      EXPECT_TRUE(compiled[i].allclose(run[i], 1e-5, 1e-7))
          << "variable " << i << " of " << replicas << " replicas";
    }
  }
}

/// While it exists, libtorch throws where the host waits for a card.
class RefusedWaits {
 public:
  RefusedWaits() { set(c10::cuda::SyncDebugMode::L_ERROR); }
  ~RefusedWaits() { set(c10::cuda::SyncDebugMode::L_DISABLED); }
  RefusedWaits(const RefusedWaits&) = delete;
  RefusedWaits& operator=(const RefusedWaits&) = delete;

 private:
  static void set(c10::cuda::SyncDebugMode mode) {
    c10::cuda::warning_state().set_sync_debug_mode(mode);
  }
};

TEST_F(OnGpu, NothingInAStepWaitsForTheCard) {
  for (const int replicas : {1, 2}) {
    const auto strategy = gpus(replicas);
    const auto model = strategy->create<models::MnistCnn>();
    const auto adam = strategy->optimizer(model, optim::Adam{.learning_rate = 1e-3});
    const auto body = [&](const input::LabeledBatch& local) {
      distribute::Gradients gradients = adam.aggregate(adam.compute_gradients(
          layers::losses::sparse_softmax_cross_entropy(model(local.features), local.labels)));
      optim::clip_by_global_norm_(gradients, 0.1);
      adam.apply_gradients(gradients);
    };
    std::unique_ptr<RefusedWaits> refused;
    int steps = 0;
    for (const auto& batch : strategy->distribute(parity::examples(64).batch(32).repeat())) {
      if (steps++ == 10) break;
      if (steps == 5) refused = std::make_unique<RefusedWaits>();  // libraries are loaded by then
      strategy->run(body, batch);
    }
    refused.reset();
    EXPECT_EQ(adam.updates(), 10);
  }
}

/// Refuses waits from the end of the fourth batch to that of the ninth.
class RefusesWaitsInFit final : public train::Callback {
 public:
  void on_train_batch_end(train::FitContext&) override {
    ++batches_;
    if (batches_ == 4) refused_ = std::make_unique<RefusedWaits>();
    if (batches_ == 9) refused_.reset();
  }
  int batches() const { return batches_; }

 private:
  int batches_ = 0;
  std::unique_ptr<RefusedWaits> refused_;
};

TEST_F(OnGpu, NothingInAStepOfFitWaitsForTheCard) {
  for (const int replicas : {1, 2}) {
    const auto strategy = gpus(replicas);
    train::Model model(*strategy, models::make_model_function("slim_net"));
    model.compile({.optimizer = optim::Adam{.learning_rate = 1e-3},
                   .loss = train::Loss("sparse_categorical_crossentropy", {.from_logits = true}),
                   .metrics = {"accuracy"}});
    const auto refusal = std::make_shared<RefusesWaitsInFit>();
    model.fit(train::LabeledData(at::rand({640, 1, 28, 28}), at::randint(10, {640}, at::kLong)),
              {.batch_size = 64, .callbacks = {refusal}, .verbose = train::Verbose::kSilent});
    EXPECT_EQ(refusal->batches(), 10);
  }
}

/// Prints what tools/gpu_session.py reads.
TEST_F(OnGpu, ACheckpointOfResNet50WithAdamHoldsUpAStepForAtMost50Milliseconds) {
  distribute::OneDeviceStrategy strategy({.device = "gpu:0", .seed = 5});
  const auto images = [](std::int64_t count) {
    return at::rand({count, 3, 64, 64}, at::TensorOptions(kCard));
  };
  const auto model =
      strategy.create(models::make_model_function("resnet50", {.classes = 1000}), images(1));
  const auto adam = strategy.optimizer(model, optim::Adam{.learning_rate = 1e-3});
  const auto step = [&] {
    strategy.run([&](const at::Tensor& batch) { adam.minimize(model(batch).square().mean()); },
                 images(8));
  };
  step();
  train::TrainingState state(strategy);
  state.add_created();
  const auto folder = std::filesystem::temp_directory_path() / "brigade_gpu_checkpoints";
  std::filesystem::remove_all(folder);
  checkpoint::Saver saver({.directory = folder, .keep_last = 1});
  double milliseconds = 0;
  for (int save = 0; save < 3; ++save) {  // pinned memory is allocated by the first ones
    step();
    strategy.wait_for_devices();
    saver.wait();
    const auto begin = std::chrono::steady_clock::now();
    saver.save(save, state.contents());
    milliseconds =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }
  saver.close();
  std::filesystem::remove_all(folder);
  std::cout << "{\"milliseconds\": " << milliseconds << "}" << std::endl;
  EXPECT_LE(milliseconds, 50.0);
}

TEST_F(OnGpu, BackwardRunsOnAThreadOfTheCard) {
  std::thread::id thread;
  device::run_on_backward_thread(c10::Device(c10::kCUDA, 0),
                                 [&] { thread = std::this_thread::get_id(); });
  EXPECT_NE(thread, std::this_thread::get_id());
}

}  // namespace
}  // namespace brigade
