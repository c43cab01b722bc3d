#pragma once

#include <torch/csrc/autograd/function.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/comm/tensor_channel.h"
#include "brigade/concurrency/stage_slots.h"
#include "brigade/distribute/pipeline/stage_channels.h"
#include "brigade/distribute/pipeline/stage_variables.h"

namespace brigade::distribute {

/// The autograd node at which the backward pass of a micro-batch returns from the next process: it
/// waits for the gradient of the tensor that was sent there, and then for the micro-batch's
/// backward pass on the local stage that sent it. On CPUs it runs on the micro-batch's thread. Its
/// outputs are that gradient, and the gradients of tied weights that later processes have computed:
/// they are the first terms of these weights' gradients, as in the backward pass of one process.
///
/// Its input is the gradient of the model's result, which every process has; or, between two local
/// stages, the gradient of what was received there, which it sends to the previous process.
///
/// Thread-safety: as an autograd node.
class RemoteGradient final : public torch::autograd::Node {
 public:
  struct Messages {
    comm::MessageKey awaited;
    std::optional<comm::MessageKey> sent = std::nullopt;
  };

  /// `tied`: the variables whose gradients come with the message. `stage`: the local stage that
  /// sent the tensor.
  RemoteGradient(std::shared_ptr<concurrency::StageSlots> slots,
                 std::shared_ptr<const StageChannels> channels,
                 std::shared_ptr<const StageVariables> variables, std::vector<std::size_t> tied,
                 const Messages& messages, int stage);

  std::string name() const override { return "RemoteGradient"; }

 protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& inputs) override;

 private:
  int replica() const { return messages_.awaited.number; }
  void send(const at::Tensor& gradient) const;

  const std::shared_ptr<concurrency::StageSlots> slots_;
  const std::shared_ptr<const StageChannels> channels_;
  const std::shared_ptr<const StageVariables> variables_;
  const std::vector<std::size_t> tied_;
  const Messages messages_;
  const int stage_;
};

/// The autograd node after a leaf that holds a received activation: it passes the gradient on. The
/// model continues with the node's output, which it may change in place, as it must not change a
/// leaf.
///
/// Thread-safety: as an autograd node.
class ReceivedActivation final : public torch::autograd::Node {
 public:
  std::string name() const override { return "ReceivedActivation"; }

 protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }
};

}  // namespace brigade::distribute
