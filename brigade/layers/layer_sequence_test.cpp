#include "brigade/layers/layer_sequence.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>

#include <string>
#include <vector>

#include "brigade/comm/replica.h"
#include "brigade/comm/stage_passes.h"

namespace brigade::layers {
namespace {

/// Notes the layers that begin, and adds 1 to the input of "second".
class RecordedLayers final : public comm::StagePasses {
 public:
  at::Tensor begin_layer(int replica, std::string_view name, const at::Tensor& x) override {
    EXPECT_EQ(replica, 3);
    names.emplace_back(name);
    return name == "second" ? x + 1 : x;
  }
  void begin_backward(int) override {}
  void end_backward(int) noexcept override {}

  std::vector<std::string> names;
};

TEST(LayerSequence, AnnouncesItsLayersAndContinuesWithWhatItGets) {
  LayerSequence net;
  torch::nn::Linear first(4, 3), second(3, 2);
  net.push_back("first", first);
  net.push_back(torch::nn::Tanh());
  net.push_back("second", second);
  const at::Tensor x = at::arange(8, at::kFloat).view({2, 4});
  EXPECT_TRUE(at::equal(net.forward(x), second(first(x).tanh())));

  RecordedLayers stages;
  const comm::Replica replica{.id = 3, .stages = &stages};
  const base::AmbientScope<const comm::Replica> scope(comm::kReplicaSlot, &replica);
  EXPECT_TRUE(at::equal(net.forward(x), second(first(x).tanh() + 1)));
  EXPECT_EQ(stages.names, std::vector<std::string>({"first", "1", "second"}));
  EXPECT_EQ(
      net.named_parameters().keys(),
      std::vector<std::string>({"first.weight", "first.bias", "second.weight", "second.bias"}));
}

}  // namespace
}  // namespace brigade::layers
