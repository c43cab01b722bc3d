#include "brigade/device/arithmetic_fingerprint.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <c10/util/irange.h>

#include <array>
#include <iomanip>
#include <sstream>

namespace brigade::device {

namespace {

/// FNV-1a over the bytes of tensors.
class Hash {
 public:
  void add(const at::Tensor& values) {
    const at::Tensor dense = values.contiguous();
    const auto* bytes = static_cast<const unsigned char*>(dense.const_data_ptr());
    for (std::size_t i = 0; i < dense.nbytes(); ++i) value_ = (value_ ^ bytes[i]) * kPrime;
  }
  std::string hex() const {
    std::ostringstream text;
    text << std::hex << std::setw(16) << std::setfill('0') << value_;
    return text.str();
  }

 private:
  static constexpr std::uint64_t kPrime = 1099511628211ULL;
  std::uint64_t value_ = 14695981039346656037ULL;
};

/// Numbers in [-1, 1) of which every processor makes the same bits.
at::Tensor numbers(at::IntArrayRef shape) {
  at::Tensor made = at::empty(shape, at::kFloat);
  auto* values = made.mutable_data_ptr<float>();
  std::uint32_t state = 12345;
  for (const auto i : c10::irange(made.numel())) {
    state = state * 1664525U + 1013904223U;
    values[i] = static_cast<float>(static_cast<std::int32_t>(state) >> 8) / 8388608.0F;
  }
  return made;
}

void add_convolution(Hash& hash, at::IntArrayRef image, at::IntArrayRef filter,
                     std::int64_t stride) {
  const at::Tensor input = numbers(image);
  const at::Tensor weight = numbers(filter);
  const at::Tensor bias = numbers({filter[0]});
  const std::int64_t padding = filter[2] / 2;
  const at::Tensor output = at::conv2d(input, weight, bias, stride, padding);
  hash.add(output);
  const auto gradients = at::convolution_backward(
      output, input, weight, at::IntArrayRef({filter[0]}), {stride, stride}, {padding, padding},
      {1, 1}, /*transposed=*/false, {0, 0}, /*groups=*/1, std::array<bool, 3>{true, true, true});
  hash.add(std::get<0>(gradients));
  hash.add(std::get<1>(gradients));
  hash.add(std::get<2>(gradients));
}

void add_product(Hash& hash, std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  const at::Tensor input = numbers({rows, inner});
  const at::Tensor weight = numbers({columns, inner});
  const at::Tensor output = at::linear(input, weight, numbers({columns}));
  hash.add(output);
  hash.add(output.matmul(weight));
  hash.add(output.t().matmul(input));
  hash.add(output.sum(0));
}

void add_normalization(Hash& hash) {
  const at::Tensor input = numbers({8, 16, 9, 9});
  const at::Tensor scale = numbers({16});
  const auto [output, mean, deviation] =
      at::native_batch_norm(input, scale, numbers({16}), {}, {}, /*training=*/true, 0.1, 1e-5);
  hash.add(output);
  const auto gradients =
      at::native_batch_norm_backward(output, input, scale, {}, {}, mean, deviation, /*train=*/true,
                                     1e-5, std::array<bool, 3>{true, true, true});
  hash.add(std::get<0>(gradients));
  hash.add(std::get<1>(gradients));
}

void add_functions(Hash& hash) {
  const at::Tensor input = numbers({37, 101}).mul(4);
  hash.add(at::_log_softmax(input, 1, /*half_to_float=*/false));
  hash.add(input.exp());
  hash.add(input.tanh());
  hash.add(input.sigmoid());
  hash.add(input.sum());
  hash.add(input.mean(1));
  hash.add(input.pow(2).sum(0).sqrt());
}

/// Sets the calling thread's number of intra-op threads while it lives.
class Threads {
 public:
  explicit Threads(int threads) : before_(at::get_num_threads()) {
    if (threads != before_) at::set_num_threads(threads);
  }
  ~Threads() {
    if (at::get_num_threads() != before_) at::set_num_threads(before_);
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  const int before_;
};

}  // namespace

std::string arithmetic_fingerprint(int threads) {
  const at::NoGradGuard no_grad;
  const Threads scope(threads);
  Hash hash;
  add_convolution(hash, {4, 3, 20, 20}, {16, 3, 3, 3}, 1);
  add_convolution(hash, {4, 16, 11, 11}, {32, 16, 5, 5}, 1);
  add_convolution(hash, {4, 32, 8, 8}, {16, 32, 1, 1}, 2);
  add_product(hash, 16, 392, 64);
  add_product(hash, 7, 33, 10);
  add_normalization(hash);
  add_functions(hash);
  return hash.hex();
}

}  // namespace brigade::device
