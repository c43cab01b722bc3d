#include "brigade/train/model/custom_train_step.h"

#include "brigade/train/model/trainer.h"

namespace brigade::train {

using input::NamedTensors;

const distribute::Optimizer& TrainStepContext::optimizer() const {
  return trainer_.optimizer();
}

at::Tensor TrainStepContext::forward(const at::Tensor& input) const {
  return internal::only_tensor(forward(unnamed(input)), "The network", "outputs");
}

NamedTensors TrainStepContext::forward(const NamedTensors& inputs) const {
  return trainer_.network().forward(inputs);
}

at::Tensor TrainStepContext::compute_loss(const ModelBatch& batch, const at::Tensor& output) const {
  return trainer_.loss_of(batch, unnamed(output));
}

at::Tensor TrainStepContext::compute_loss(const ModelBatch& batch,
                                          const NamedTensors& outputs) const {
  return trainer_.loss_of(batch, outputs);
}

void TrainStepContext::update_metrics(const ModelBatch& batch, const at::Tensor& output) const {
  trainer_.update_metrics(batch, unnamed(output));
}

void TrainStepContext::update_metrics(const ModelBatch& batch, const NamedTensors& outputs) const {
  trainer_.update_metrics(batch, outputs);
}

}  // namespace brigade::train
