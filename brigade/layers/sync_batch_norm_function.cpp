#include "brigade/layers/sync_batch_norm_function.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/batch_norm_update_stats.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "brigade/comm/differentiable.h"
#include "brigade/comm/replica.h"
#include "brigade/device/autocast_scope.h"

namespace brigade::layers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

std::int64_t values_a_channel(const at::Tensor& x) {
  std::int64_t count = 1;
  for (std::int64_t d = 0; d < x.dim(); ++d) count *= d == 1 ? 1 : x.size(d);
  return count;
}

/// bfloat16 and float16 are too narrow for sums.
at::Tensor widened(const at::Tensor& x) {
  return at::isReducedFloatingType(x.scalar_type()) ? x.to(at::kFloat) : x;
}

/// [C] as [1, C, 1, ...], to broadcast with `x` [N, C, ...].
at::Tensor along_channels(const at::Tensor& values, const at::Tensor& x) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
  shape[1] = values.numel();
  return values.to(x.scalar_type()).view(shape);
}

/// Mean and sum of squared deviations of this rank's batch: [2, C], float64.
struct LocalMoments : Function<LocalMoments> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    const std::int64_t count = values_a_channel(x);
    if (count == 0) {
      context->save_for_backward({x, {}});
      return at::zeros({2, x.size(1)}, x.options().dtype(at::kDouble));
    }
    const auto [mean, variance] = at::batch_norm_update_stats(widened(x), {}, {}, 0.0);
    context->save_for_backward({x, mean});
    return at::stack({mean.to(at::kDouble), variance.to(at::kDouble).mul_(count)});
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    if (x.numel() == 0) return {at::zeros_like(x)};
    const at::Tensor wide = widened(x);
    const auto count = static_cast<double>(values_a_channel(x));
    const at::Tensor of_mean = along_channels(gradients[0][0] / count, wide);
    const at::Tensor of_squares = along_channels(gradients[0][1] * 2.0, wide);
    const at::Tensor deviation = wide - along_channels(saved[1], wide);
    return {at::addcmul(of_mean, deviation, of_squares).to(x.scalar_type())};
  }
};

/// The moments of all ranks' batches together, as plain values.
struct Totals {
  std::int64_t count = 0;
  at::Tensor mean, squares;  // [C], float64, on the host
};

/// Chan's combination, in rank order: sums of squares less squares of sums would lose the digits of
/// channels that are far from 0.
Totals totals_over(comm::Communicator& ranks, const at::Tensor& own, std::int64_t count) {
  const std::int64_t channels = own.size(1);
  const std::vector<at::Tensor> all = ranks.all_gather(
      at::cat({own.reshape({-1}), at::full({1}, static_cast<double>(count), own.options())}));
  Totals totals{.mean = at::zeros({channels}, own.options()),
                .squares = at::zeros({channels}, own.options())};
  for (const at::Tensor& part : all) {
    const auto of_part = part[2 * channels].item<double>();
    if (of_part == 0) continue;
    const auto before = static_cast<double>(totals.count);
    const double fraction = of_part / (before + of_part);
    const at::Tensor apart = part.narrow(0, 0, channels) - totals.mean;
    totals.mean.add_(apart, fraction);
    totals.squares.add_(part.narrow(0, channels, channels))
        .addcmul_(apart, apart, before * fraction);
    totals.count += static_cast<std::int64_t>(of_part);
  }
  return totals;
}

/// Mean and variance of the whole batch [2, C], as a function of one rank's moments.
struct GlobalMoments : Function<GlobalMoments> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& own, const at::Tensor& mean,
                            const at::Tensor& squares, std::int64_t count, std::int64_t all) {
    context->save_for_backward({own[0] - mean});
    context->saved_data["count"] = count;
    context->saved_data["all"] = all;
    return at::stack({mean, squares / static_cast<double>(all)});
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto count = static_cast<double>(context->saved_data["count"].toInt());
    const auto all = static_cast<double>(context->saved_data["all"].toInt());
    const at::Tensor apart = context->get_saved_variables()[0];
    const at::Tensor of_mean = gradients[0][0];
    const at::Tensor of_variance = gradients[0][1];
    return {at::stack(
                {at::addcmul(of_mean, of_variance, apart, 2.0) * (count / all), of_variance / all}),
            {},
            {},
            {},
            {}};
  }
};

/// (x - mean) / sqrt(variance + epsilon) * gamma + beta, with the moments as ordinary inputs.
struct Normalize : Function<Normalize> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& moments, const at::Tensor& gamma,
                            const at::Tensor& beta, double epsilon) {
    const auto dtype = gamma.scalar_type();
    const at::Tensor mean = moments[0].to(dtype);
    const at::Tensor variance = moments[1].to(dtype);
    context->save_for_backward({x, gamma, mean, variance});
    context->saved_data["epsilon"] = epsilon;
    if (x.numel() == 0) return at::empty_like(x);
    return std::get<0>(
        at::native_batch_norm(x, gamma, beta, mean, variance, /*training=*/false, 0.0, epsilon));
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &gamma = saved[1], &mean = saved[2], &variance = saved[3];
    if (x.numel() == 0) {
      const at::Tensor none = at::zeros_like(mean);
      return {at::zeros_like(x), at::stack({none, none}).to(at::kDouble), none, none, {}};
    }
    const double epsilon = context->saved_data["epsilon"].toDouble();
    // In evaluation mode this is the gradient for constant moments, and the sums over the batch
    // that the moments' gradients consist of.
    const auto [of_x, of_gamma, of_beta] =
        at::native_batch_norm_backward(gradients[0], x, gamma, mean, variance, {}, {},
                                       /*train=*/false, epsilon, {true, true, true});
    const at::Tensor inverse = (variance.to(at::kDouble) + epsilon).rsqrt_();
    const at::Tensor slope = inverse * gamma;
    const at::Tensor of_mean = -slope * of_beta;
    const at::Tensor of_variance = slope * inverse * of_gamma * -0.5;
    return {of_x, at::stack({of_mean, of_variance}), of_gamma, of_beta, {}};
  }
};

}  // namespace

comm::Communicator* ranks_of_global_batch() {
  const comm::Replica* replica = comm::current_replica();
  if (replica == nullptr || replica->communicator == nullptr) return nullptr;
  return replica->communicator->world_size() > 1 ? replica->communicator : nullptr;
}

at::Tensor GlobalBatchNorm::variance_of_distribution() const {
  if (count <= 1) return at::zeros_like(variance);
  return variance * (static_cast<double>(count) / static_cast<double>(count - 1));
}

GlobalBatchNorm global_batch_norm(comm::Communicator& ranks, const at::Tensor& inputs,
                                  const at::Tensor& gamma, const at::Tensor& beta, double epsilon) {
  const device::AutocastScope full(device::Precision::kFull);
  const std::int64_t count = values_a_channel(inputs);
  // Through the host, even from a GPU: the node that waits for other ranks then runs on the thread
  // that called backward, not on the GPU's autograd thread, which may have to serve those ranks as
  // well.
  const at::Tensor own = LocalMoments::apply(inputs).cpu();
  const Totals totals = totals_over(ranks, own.detach(), count);
  const std::int64_t divisor = std::max<std::int64_t>(totals.count, 1);
  const at::Tensor moments =
      comm::all_reduce_gradient(
          ranks, GlobalMoments::apply(own, totals.mean, totals.squares, count, divisor))
          .to(inputs.device());
  // libtorch's custom autograd functions do not accept undefined tensors.
  const at::Tensor constant = widened(inputs.detach().new_ones({inputs.size(1)}));
  return {.result =
              Normalize::apply(inputs, moments, gamma.defined() ? widened(gamma) : constant,
                               beta.defined() ? widened(beta) : at::zeros_like(constant), epsilon),
          .mean = moments.detach()[0],
          .variance = moments.detach()[1],
          .count = totals.count};
}

}  // namespace brigade::layers
