#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <functional>
#include <utility>
#include <vector>

#include "benchmarks/workload.h"

namespace brigade::benchmarks {

/// The training loop that a careful user of libtorch writes for one device: fused updates over the
/// list of parameters (stock torch::optim is slower), gradients dropped instead of zeroed. Nothing
/// of Brigade is in it. The device is that of the parameters and batches.
class BareLoop {
 public:
  using Forward = std::function<at::Tensor(const at::Tensor&)>;

  BareLoop(Workload workload, Forward forward, std::vector<at::Tensor> parameters,
           std::vector<Batch> batches)
      : workload_(workload),
        forward_(std::move(forward)),
        parameters_(std::move(parameters)),
        batches_(std::move(batches)) {
    for (const auto& parameter : parameters_) {
      first_moments_.push_back(at::zeros_like(parameter));
      second_moments_.push_back(at::zeros_like(parameter));
      steps_.push_back(at::zeros({}, parameter.device()));
    }
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    const c10::Device device = parameters_.front().device();
    if (!device.is_cpu())
      c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  }

 private:
  void step() {
    const auto& batch = batches_[position_++ % batches_.size()];
    at::cross_entropy_loss(forward_(batch.features), batch.labels).backward();
    gradients_.clear();
    for (auto& parameter : parameters_) {
      gradients_.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
    }
    const c10::NoGradGuard no_grad;
    if (has_images(workload_)) {
      at::_foreach_add_(steps_, 1);
      at::_fused_adam_(parameters_, gradients_, first_moments_, second_moments_, {}, steps_, 1e-3,
                       0.9, 0.999, 0.0, 1e-8, /*amsgrad=*/false, /*maximize=*/false);
    } else {
      at::_fused_sgd_(parameters_, gradients_, {}, 0.0, 0.0, 1e-3, 0.0, /*nesterov=*/false,
                      /*maximize=*/false,
                      /*is_first_step=*/false);
    }
  }

  Workload workload_;
  Forward forward_;
  std::vector<at::Tensor> parameters_, first_moments_, second_moments_, steps_, gradients_;
  std::vector<Batch> batches_;
  std::size_t position_ = 0;
};

}  // namespace brigade::benchmarks
