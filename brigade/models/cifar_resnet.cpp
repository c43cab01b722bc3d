#include "brigade/models/cifar_resnet.h"

#include <ATen/ops/mean.h>
#include <ATen/ops/softmax.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/stage_passes.h"
#include "brigade/models/model_scope.h"

namespace brigade::models {
namespace {

using base::str_cat;

constexpr int kCifarBlocks = 3;
constexpr int kDepthStep = 2 * kCifarBlocks;  // two convolutions for each unit of each block

void check_cifar_resnet(const CifarResNetOptions& options) {
  check_argument(options.depth > kDepthStep && options.depth % kDepthStep == 2,
                 "cifar_resnet: depth is ", options.depth,
                 "; expected 6 n + 2 for some n of 1 or more: 8, 14, 20, ...");
  check_argument(options.num_classes >= 1, "cifar_resnet: num_classes is ", options.num_classes,
                 "; expected 1 or more");
  check_argument(options.channels >= 1, "cifar_resnet: channels is ", options.channels,
                 "; expected 1 or more");
}

ResidualStyle style_of(const CifarResNetOptions& options) {
  return {.weights_initializer = variables::variance_scaling_initializer(
              {.scale = 2.0,
               .mode = variables::FanMode::kFanIn,
               .distribution = variables::Distribution::kUntruncatedNormal}),
          .shortcut = options.shortcut,
          .mode = options.mode};
}

}  // namespace

CifarResNetResult cifar_resnet(const at::Tensor& images, const CifarResNetOptions& options) {
  check_cifar_resnet(options);
  const ModelScope scope(options.scope, options.reuse);
  const ResidualStyle style = style_of(options);
  CifarResNetResult result;
  const auto recorded = [&](const std::string& name, const at::Tensor& value) {
    result.end_points.set(name, value);
    return value;
  };
  at::Tensor net = recorded(
      "conv1",
      residual_convolution(comm::begin_layer("conv1", images),
                           {.channels = options.channels, .kernel = 3, .scope = "conv1"}, style));
  for (int block = 0; block < kCifarBlocks; ++block) {
    const std::string name = str_cat("block", block + 1);
    const auto block_scope = variables::variable_scope(name);
    for (int number = 1; number <= (options.depth - 2) / kDepthStep; ++number) {
      const ResidualUnit unit{.channels = options.channels << block,
                              .stride = block > 0 && number == 1 ? 2 : 1,
                              .scope = str_cat("unit_", number)};
      const std::string unit_name = name + "/" + unit.scope;
      net = comm::begin_layer(unit_name, net);
      net = recorded(unit_name, basic_unit(net, unit, style));
    }
    recorded(name, net);
  }
  net = comm::begin_layer("logits", net);
  net = recorded("global_pool", net.mean({2, 3}));
  result.logits = recorded("logits", residual_classifier(net, options.num_classes, style));
  recorded("predictions", at::softmax(result.logits, 1));
  return result;
}

}  // namespace brigade::models
