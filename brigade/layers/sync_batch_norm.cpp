#include "brigade/layers/sync_batch_norm.h"

#include <ATen/core/grad_mode.h>

#include <string>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/layers/sync_batch_norm_function.h"

namespace brigade::layers {
namespace {

namespace nn = torch::nn;

void copy_values(const at::Tensor& to, const at::Tensor& from) {
  if (!to.defined()) return;
  to.set_data(from.detach().clone());
  to.set_requires_grad(from.requires_grad());
}

template <class Impl>
SyncBatchNorm synchronized(Impl& plain) {
  SyncBatchNorm result(plain.options);
  const at::NoGradGuard no_gradients;
  copy_values(result->weight, plain.weight);
  copy_values(result->bias, plain.bias);
  copy_values(result->running_mean, plain.running_mean);
  copy_values(result->running_var, plain.running_var);
  copy_values(result->num_batches_tracked, plain.num_batches_tracked);
  result->train(plain.is_training());
  return result;
}

bool is_plain_batch_norm(const nn::Module& module) {
  return module.as<nn::BatchNorm1d>() || module.as<nn::BatchNorm2d>() ||
         module.as<nn::BatchNorm3d>();
}

void check_keeps_none(const std::string& name, const nn::Module& layer) {
  for (const auto& within : layer.named_modules()) {
    if (!is_plain_batch_norm(*within.value())) continue;
    throw Error(ErrorCode::kInvalidArgument, "convert_sync_batch_norm: layer '", name,
                "' keeps a batch norm ('", within.key(),
                "') as a member, which cannot be replaced from outside: declare it there as "
                "layers::SyncBatchNorm.");
  }
}

nn::AnyModule converted(const std::string& name, const nn::AnyModule& layer) {
  const std::shared_ptr<nn::Module> module = layer.ptr();
  if (auto* plain = module->as<nn::BatchNorm1d>()) return nn::AnyModule(synchronized(*plain));
  if (auto* plain = module->as<nn::BatchNorm2d>()) return nn::AnyModule(synchronized(*plain));
  if (auto* plain = module->as<nn::BatchNorm3d>()) return nn::AnyModule(synchronized(*plain));
  check_keeps_none(name, *module);
  return layer;
}

}  // namespace

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  comm::Communicator* ranks = is_training() ? ranks_of_global_batch() : nullptr;
  if (ranks == nullptr) return BatchNormImplBase::forward(input);
  _check_input_dim(input);
  GlobalBatchNorm whole = global_batch_norm(*ranks, input, weight, bias, options.eps());
  check_argument(
      whole.count != 1,
      "SyncBatchNorm: the global batch has one value per channel, which has no variance: "
      "train on more than one example a step (drop_remainder leaves out a short rest).");
  if (options.track_running_stats() && whole.count > 0)
    move_running_statistics(whole.mean, whole.variance_of_distribution());
  return std::move(whole.result);
}

void SyncBatchNormImpl::move_running_statistics(const at::Tensor& mean,
                                                const at::Tensor& variance) {
  const at::NoGradGuard no_gradients;
  num_batches_tracked += 1;
  const auto momentum = options.momentum();
  // Without a momentum the statistics are the mean over all batches so far.
  const double share = momentum ? *momentum : 1.0 / num_batches_tracked.item<double>();
  running_mean.copy_(running_mean.to(at::kDouble).mul_(1.0 - share).add_(mean, share));
  running_var.copy_(running_var.to(at::kDouble).mul_(1.0 - share).add_(variance, share));
}

void SyncBatchNormImpl::_check_input_dim(const at::Tensor& input) {
  if (input.dim() < 2 || input.size(1) != options.num_features()) {
    refuse("SyncBatchNorm: inputs must be [N, ", options.num_features(), ", ...]; these have ",
           input.dim(), " dimensions",
           input.dim() >= 2 ? base::str_cat(" and ", input.size(1), " channels") : std::string(),
           ".");
  }
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "brigade::layers::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps()
         << ", momentum=";
  if (options.momentum()) {
    stream << *options.momentum();
  } else {
    stream << "None";
  }
  stream << std::boolalpha << ", affine=" << options.affine()
         << ", track_running_stats=" << options.track_running_stats() << ')';
}

nn::Sequential convert_sync_batch_norm(const nn::Sequential& module) {
  nn::Sequential result;
  const auto layers = module->named_children();
  auto name = layers.begin();
  for (const nn::AnyModule& layer : *module) {
    result->push_back(name->key(), converted(name->key(), layer));
    ++name;
  }
  result->train(module->is_training());
  return result;
}

}  // namespace brigade::layers
