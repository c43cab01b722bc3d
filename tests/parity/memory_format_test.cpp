// A network in channels-last order trains as in contiguous order, under several strategies, and its
// steps convert no kernel and no gradient of one.
#include <ATen/ops/ones.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/input/synthetic.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/conv2d.h"
#include "brigade/layers/losses.h"
#include "brigade/layers/pooling.h"
#include "brigade/models/cifar_resnet.h"
#include "brigade/optim/clipping.h"
#include "brigade/optim/sgd.h"
#include "tests/parity/training.h"

namespace brigade::parity {
namespace {

using distribute::MirroredStrategy;
using distribute::MultiWorkerMirroredStrategy;
using distribute::Strategy;

constexpr auto kContiguous = at::MemoryFormat::Contiguous;
constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

at::Tensor kernels_net(const at::Tensor& images, at::MemoryFormat format) {
  const auto formats = layers::arg_scope<layers::conv2d>({.memory_format = format});
  at::Tensor net = layers::conv2d(images, 4, 5, {.stride = 2});
  net = layers::conv2d(net, 6, 3, {.stride = 2});
  net = layers::max_pool2d(layers::conv2d(net, 5, {1, 3}), 2);
  return layers::fully_connected(layers::flatten(net), 10, {.activation = nullptr});
}

Weights kernels_trained_by(Strategy& strategy, at::MemoryFormat format) {
  const auto model =
      strategy.create([format](const at::Tensor& images) { return kernels_net(images, format); },
                      at::ones({1, 1, 28, 28}, at::kDouble));
  const bool has_kernels_so = std::ranges::any_of(
      model.variables(), [&](const auto& each) { return each.memory_format() == kChannelsLast; });
  EXPECT_EQ(has_kernels_so, format == kChannelsLast);
  return train_model(strategy, model, 6, optim::Sgd{.learning_rate = 0.02, .momentum = 0.9});
}

TEST(MemoryFormat, ChannelsLastTrainsLikeContiguous) {
  const std::map<std::string, std::function<std::unique_ptr<Strategy>()>> makers = {
      {"three replicas", [] { return std::make_unique<MirroredStrategy>(distribute::cpus(3)); }},
      {"central storage with copies", [] {
         return std::make_unique<distribute::CentralStorageStrategy>(
             distribute::central_cpus(2, variables::Caching::kAlways));
       }}};
  for (const auto& [name, make] : makers) {
    const auto first = make(), second = make();
    const Weights plain = kernels_trained_by(*first, kContiguous);
    expect_same(kernels_trained_by(*second, kChannelsLast), plain, 1e-9, name);
  }
}

// Gradients are reduced in buckets there, with 1 byte each during backward.
TEST(MemoryFormat, ChannelsLastTrainsLikeContiguousOnSeveralWorkers) {
  for (const std::int64_t bytes : {0, 1}) {
    std::map<at::MemoryFormat, Weights> weights;
    for (const auto format : {kContiguous, kChannelsLast}) {
      std::mutex mutex;
      distribute::run_workers({2, 1},
                              [&](MultiWorkerMirroredStrategy& strategy) {
                                Weights own = kernels_trained_by(strategy, format);
                                const std::lock_guard lock(mutex);
                                weights[format] = std::move(own);
                              },
                              {.bytes_per_pack = bytes});
    }
    expect_same(weights[kChannelsLast], weights[kContiguous], 1e-9,
                base::str_cat("on two workers, packs of ", bytes));
  }
}

/// Counts the copies, while it exists, between tensors of a kernel's shape with different strides.
/// Without those inside of libtorch's convolution_backward, which gets a gradient in an order of
/// its own from oneDNN, and returns it in that of the kernel.
class ConversionCounter {
 public:
  explicit ConversionCounter(std::vector<std::vector<std::int64_t>> shapes)
      : shapes_(std::move(shapes)) {
    current_ = this;
    handle_ = at::addGlobalCallback(
        at::RecordFunctionCallback(&ConversionCounter::see).needsInputs(true));
  }
  ~ConversionCounter() {
    at::removeCallback(handle_);
    current_ = nullptr;
  }
  ConversionCounter(const ConversionCounter&) = delete;
  ConversionCounter& operator=(const ConversionCounter&) = delete;
  int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  /// Exists while the calling thread is in convolution_backward.
  struct InBackward final : at::ObserverContext {
    explicit InBackward(ConversionCounter& the_counter) : counter(the_counter) {
      const std::lock_guard lock(counter.mutex_);
      counter.in_backward_.insert(std::this_thread::get_id());
    }
    ~InBackward() override {
      const std::lock_guard lock(counter.mutex_);
      counter.in_backward_.erase(std::this_thread::get_id());
    }
    ConversionCounter& counter;
  };

  static std::unique_ptr<at::ObserverContext> see(const at::RecordFunction& function) {
    ConversionCounter* const counter = current_;
    const std::string_view name = function.name();
    if (counter == nullptr) return nullptr;
    if (name == "aten::convolution_backward") return std::make_unique<InBackward>(*counter);
    if (name == "aten::copy_") counter->see_copy(function);
    return nullptr;
  }
  void see_copy(const at::RecordFunction& function) {
    const auto inputs = function.inputs();
    const at::Tensor to = inputs[0].toTensor(), from = inputs[1].toTensor();
    const bool is_kernel = std::ranges::find(shapes_, to.sizes().vec()) != shapes_.end();
    if (!is_kernel || to.sizes() != from.sizes() || to.strides() == from.strides()) return;
    const std::lock_guard lock(mutex_);
    if (!in_backward_.contains(std::this_thread::get_id())) ++count_;
  }

  static inline std::atomic<ConversionCounter*> current_ = nullptr;
  const std::vector<std::vector<std::int64_t>> shapes_;
  std::mutex mutex_;  // guards both below
  std::set<std::thread::id> in_backward_;
  int count_ = 0;
  at::CallbackHandle handle_{};
};

struct ConvertingCase {
  /// Of the layers; unset: only images are in channels-last order, and libtorch converts kernels.
  std::optional<at::MemoryFormat> format = kChannelsLast;
  int accumulate = 1;
  bool clips = false;
};

/// The conversions in two steps of two replicas.
int conversions_in(const ConvertingCase& each) {
  MirroredStrategy strategy(distribute::cpus(2));
  const auto model = strategy.create(
      [&](const at::Tensor& images) {
        const auto formats = layers::arg_scope<layers::conv2d>({.memory_format = each.format});
        return models::cifar_resnet(images, {.depth = 8}).logits;
      },
      at::ones({1, 3, 32, 32}));
  std::vector<std::vector<std::int64_t>> shapes;
  for (const auto& variable : model.variables())
    if (variable.shape().size() == 4) shapes.push_back(variable.shape().vec());
  EXPECT_EQ(shapes.size(), 7U);
  const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.01, .momentum = 0.9},
                                      {.accumulate = each.accumulate});
  ConversionCounter counter(shapes);
  int steps = 0;
  for (const auto& batch :
       strategy.distribute(input::synthetic(8, {3, 32, 32}, 10).batch(4).repeat())) {
    if (steps++ == 2) break;
    strategy.run(
        [&](distribute::ReplicaContext&, const input::LabeledBatch& own) {
          const at::Tensor images = own.features.contiguous(kChannelsLast);
          const at::Tensor loss =
              layers::losses::sparse_softmax_cross_entropy(model(images), own.labels);
          if (!each.clips) {
            sgd.minimize(loss);
            return;
          }
          distribute::Gradients sums = sgd.aggregate(sgd.compute_gradients(loss));
          const auto clipped = optim::clip_by_global_norm(sums.values(), 1e-3);
          for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = clipped.tensors[i];
          sgd.apply_gradients(sums);
        },
        batch);
  }
  return counter.count();
}

TEST(MemoryFormat, StepsInChannelsLastOrderConvertNoKernels) {
#ifndef NDEBUG
  GTEST_SKIP()
      << "without NDEBUG, at::RecordFunction::inputs() checks a member that libtorch, which "
         "is built with it, does not have";
#endif
  // Two steps of two replicas convert seven kernels and their gradients.
  EXPECT_EQ(conversions_in({.format = std::nullopt}), 2 * 2 * 7 * 2);
  EXPECT_EQ(conversions_in({}), 0);
  EXPECT_EQ(conversions_in({.accumulate = 2}), 0);
  EXPECT_EQ(conversions_in({.clips = true}), 0);
}

}  // namespace
}  // namespace brigade::parity
