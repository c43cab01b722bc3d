#include "brigade/comm/stage_passes.h"

#include <utility>

#include "brigade/comm/replica.h"

namespace brigade::comm {

at::Tensor begin_layer(std::string_view name, const at::Tensor& x) {
  const Replica* replica = current_replica();
  if (replica == nullptr || replica->stages == nullptr) return x;
  // `id`: a model may have a view of its replica with another `local_id`, and the replicas of a
  // pipeline are all in this process.
  return replica->stages->begin_layer(replica->id, name, x);
}

at::Tensor end_layers(const at::Tensor& result) {
  const Replica* replica = current_replica();
  if (replica == nullptr || replica->stages == nullptr) return result;
  return replica->stages->end_layers(replica->id, result);
}

void end_layers_with_more() {
  const Replica* replica = current_replica();
  if (replica != nullptr && replica->stages != nullptr)
    replica->stages->end_layers_with_more(replica->id);
}

BackwardPasses::BackwardPasses() {
  const Replica* replica = current_replica();
  if (replica == nullptr) return;
  stages_ = replica->stages;
  replica_ = replica->id;
}

BackwardPasses::~BackwardPasses() {
  if (stages_) stages_->end_backward(replica_);
}

void BackwardPasses::begin() const {
  if (stages_) stages_->begin_backward(replica_);
}

std::vector<at::Tensor> BackwardPasses::inputs() const {
  return stages_ ? stages_->backward_inputs(replica_) : std::vector<at::Tensor>();
}

void BackwardPasses::take_gradients(std::vector<at::Tensor> gradients) const {
  if (stages_) stages_->take_gradients(replica_, std::move(gradients));
}

}  // namespace brigade::comm
