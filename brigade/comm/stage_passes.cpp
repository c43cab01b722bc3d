#include "brigade/comm/stage_passes.h"

#include "brigade/comm/replica.h"

namespace brigade::comm {

at::Tensor begin_layer(std::string_view name, const at::Tensor& x) {
  const Replica* replica = current_replica();
  if (replica == nullptr || replica->stages == nullptr) return x;
  // `id`: a model may have a view of its replica with another `local_id`, and the replicas of a
  // pipeline are all in this process.
  return replica->stages->begin_layer(replica->id, name, x);
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

}  // namespace brigade::comm
