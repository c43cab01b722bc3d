// How long forward and backward of the MNIST CNN take in one thread, written in different ways that
// compute the same. docs/design/mnist-cnn-speed.md has the results. Usage: cnn_forms [batch
// [rounds]]
#include <ATen/Parallel.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <time.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "brigade/layers/fused_pooling.h"
#include "brigade/layers/losses.h"
#include "brigade/models/mnist_cnn.h"

namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

// Processor time, so that other programs on the machine disturb less.
double milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
}

struct Weights {
  explicit Weights(const brigade::models::MnistCnn& model) : all(model.parameters()) {}
  at::Tensor conv(const at::Tensor& x, int layer) const {
    return at::conv2d(x, all[2 * layer], all[2 * layer + 1], 1, 2);
  }
  at::Tensor dense(const at::Tensor& x, int layer) const {
    return at::linear(x, all[2 * layer], all[2 * layer + 1]);
  }
  at::Tensor head(const at::Tensor& x) const { return dense(dense(x.flatten(1), 2).relu_(), 3); }
  std::vector<at::Tensor> all;
};

at::Tensor pool(const at::Tensor& x) {
  return at::max_pool2d(x, 2);
}

struct Form {
  const char* name;
  std::function<at::Tensor(const at::Tensor&)> forward;
  std::vector<double> times;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int count, char** arguments) {
  const auto batch = count > 1 ? std::atoi(arguments[1]) : 128;
  const auto rounds = count > 2 ? std::atoi(arguments[2]) : 30;
  at::set_num_threads(1);
  torch::manual_seed(1);
  brigade::models::MnistCnn model;
  const Weights w(model);
  std::vector<Form> forms = {
      {"relu, pool (textbook)",
       [&](const at::Tensor& x) {
         return w.head(pool(at::relu(w.conv(pool(at::relu(w.conv(x, 0))), 1))));
       },
       {}},
      {"relu in place, pool",
       [&](const at::Tensor& x) {
         return w.head(pool(w.conv(pool(w.conv(x, 0).relu_()), 1).relu_()));
       },
       {}},
      {"pool, relu in place",
       [&](const at::Tensor& x) {
         return w.head(pool(w.conv(pool(w.conv(x, 0)).relu_(), 1)).relu_());
       },
       {}},
      {"channels_last from the start",
       [&](const at::Tensor& x) {
         const auto last = at::conv2d(x.contiguous(kChannelsLast),
                                      w.all[0].contiguous(kChannelsLast), w.all[1], 1, 2);
         return w.head(pool(w.conv(pool(last).relu_(), 1)).relu_());
       },
       {}},
      {"channels_last after conv1",
       [&](const at::Tensor& x) {
         const auto first = w.conv(x, 0).contiguous(kChannelsLast);
         return w.head(pool(w.conv(pool(first).relu_(), 1)).relu_());
       },
       {}},
      {"channels_last in the pools only",
       [&](const at::Tensor& x) {
         const auto one = pool(w.conv(x, 0).contiguous(kChannelsLast)).relu_().contiguous();
         const auto two = pool(w.conv(one, 1).contiguous(kChannelsLast)).relu_().contiguous();
         return w.head(two);
       },
       {}},
      {"max_pool2x2_relu",
       [&](const at::Tensor& x) {
         const auto one = brigade::layers::max_pool2x2_relu(w.conv(x, 0));
         return w.head(brigade::layers::max_pool2x2_relu(w.conv(one, 1)));
       },
       {}},
      {"MnistCnn (conv_pool_relu)", [&](const at::Tensor& x) { return model.forward(x); }, {}},
  };
  const auto images = torch::rand({batch, 1, 28, 28});
  const auto labels = torch::randint(0, 10, {batch}, at::kLong);
  for (int round = -3; round < rounds; ++round) {
    for (auto& form : forms) {
      model.zero_grad();
      const auto start = milliseconds();
      const auto logits = form.forward(images);
      brigade::layers::losses::sparse_softmax_cross_entropy(logits, labels).backward();
      if (round >= 0) form.times.push_back(milliseconds() - start);
    }
  }
  std::printf("batch %d, one thread, forward and backward, milliseconds of processor time\n",
              batch);
  for (const auto& form : forms) {
    std::printf("%-34s median %6.2f  least %6.2f\n", form.name, median(form.times),
                *std::min_element(form.times.begin(), form.times.end()));
  }
}
