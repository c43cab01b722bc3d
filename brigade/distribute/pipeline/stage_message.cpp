#include "brigade/distribute/pipeline/stage_message.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include "brigade/base/error.h"
#include "brigade/device/random_scope.h"

namespace brigade::distribute {

namespace {

void continue_random_numbers(const at::Tensor& state) {
  device::ReplicaGenerator* generator = device::kGeneratorSlot.get();
  if (generator == nullptr) return;
  generator->set_state(state.numel() > 0 ? state.clone() : at::Tensor());
}

}  // namespace

// The second tensor is one byte, whether a gradient is wanted; then the use of variables, if it is;
// then the state of the random numbers, if there is one.
std::vector<at::Tensor> to_tensors(const StageMessage& message) {
  std::vector<at::Tensor> parts = {at::full({1}, message.use ? 1 : 0, at::kByte)};
  if (message.use) parts.push_back(to_bytes(*message.use));
  const device::ReplicaGenerator* generator = device::kGeneratorSlot.get();
  const at::Tensor state = generator ? generator->state() : at::Tensor();
  if (state.defined()) parts.push_back(state);
  return {message.tensor, parts.size() == 1 ? parts.front() : at::cat(parts)};
}

StageMessage message_from_tensors(const std::vector<at::Tensor>& tensors, std::size_t variables) {
  StageMessage message{.tensor = tensors.front(), .use = std::nullopt};
  const at::Tensor& header = tensors.at(1);
  const bool has_use = header[0].item<int>() != 0;
  const std::int64_t use_bytes = has_use ? bytes_of_use(variables) : 0;
  check_state(header.numel() >= 1 + use_bytes,
              "Another worker of the pipeline trains fewer variables: make the same model, and the "
              "same optimizers, in every worker.");
  if (has_use) message.use = use_from_bytes(header.narrow(0, 1, use_bytes), variables);
  continue_random_numbers(header.slice(0, 1 + use_bytes));
  return message;
}

}  // namespace brigade::distribute
