#include "brigade/comm/stage_passes.h"

#include <utility>

#include "brigade/comm/replica.h"

namespace brigade::comm {

namespace {

/// Among the replicas of this process. Not `local_id`: a model may have a view of its replica with
/// another one.
int number_of(const Replica& replica) {
  return replica.id - replica.first_id;
}

}  // namespace

at::Tensor begin_layer(std::string_view name, const at::Tensor& x) {
  const Replica* replica = current_replica();
  if (replica == nullptr || replica->stages == nullptr) return x;
  return replica->stages->begin_layer(number_of(*replica), name, x);
}

bool has_stages() {
  const Replica* replica = current_replica();
  return replica != nullptr && replica->stages != nullptr;
}

at::Tensor place_layer(std::string_view name, const std::string& device, const at::Tensor& x) {
  const Replica* replica = current_replica();
  if (replica == nullptr || replica->stages == nullptr) return x;
  return replica->stages->place_layer(number_of(*replica), name, device, x);
}

at::Tensor end_layers(const at::Tensor& result) {
  const Replica* replica = current_replica();
  if (replica == nullptr || replica->stages == nullptr) return result;
  return replica->stages->end_layers(number_of(*replica), result);
}

void end_layers_with_more() {
  const Replica* replica = current_replica();
  if (replica != nullptr && replica->stages != nullptr)
    replica->stages->end_layers_with_more(number_of(*replica));
}

BackwardPasses::BackwardPasses() {
  const Replica* replica = current_replica();
  if (replica == nullptr) return;
  stages_ = replica->stages;
  replica_ = number_of(*replica);
}

BackwardPasses::~BackwardPasses() {
  if (stages_) stages_->end_backward(replica_);
}

void BackwardPasses::begin(const at::Tensor& loss) const {
  if (!stages_) return;
  stages_->check_loss(replica_, loss);
  stages_->begin_backward(replica_);
}

std::vector<at::Tensor> BackwardPasses::inputs() const {
  return stages_ ? stages_->backward_inputs(replica_) : std::vector<at::Tensor>();
}

void BackwardPasses::keep_local_gradients(std::span<const at::Tensor> variables,
                                          std::span<at::Tensor> gradients) const {
  if (stages_) stages_->keep_local_gradients(replica_, variables, gradients);
}

void BackwardPasses::send_input_gradients(std::vector<at::Tensor> gradients) const {
  if (stages_) stages_->send_input_gradients(replica_, std::move(gradients));
}

bool BackwardPasses::may_defer() const {
  return stages_ && stages_->may_defer(replica_);
}

void BackwardPasses::defer(std::function<void()> work) const {
  stages_->defer(replica_, std::move(work));
}

void BackwardPasses::complete_deferred() const {
  if (stages_) stages_->complete_deferred(replica_);
}

bool is_in_pipeline() {
  const Replica* replica = current_replica();
  return replica != nullptr && replica->stages != nullptr;
}

void parallel_for(int count, const std::function<void(int)>& work) {
  const Replica* replica = current_replica();
  if (replica != nullptr && replica->stages != nullptr)
    return replica->stages->parallel_for(number_of(*replica), count, work);
  for (int i = 0; i < count; ++i) work(i);
}

}  // namespace brigade::comm
