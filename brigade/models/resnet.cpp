#include "brigade/models/resnet.h"

#include <ATen/ops/mean.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/stage_passes.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/pooling.h"
#include "brigade/models/model_scope.h"
#include "brigade/models/residual_unit.h"

namespace brigade::models {
namespace {

using base::str_cat;
using variables::Initializer;

constexpr std::int64_t kChannels = 64;     // of the first block, and of the layer before it
constexpr std::int64_t kExpansion = 4;     // of a bottleneck unit
constexpr std::int64_t kDownsampling = 8;  // by the strides of the blocks

constexpr auto kResNets = std::to_array<ResNetBlocks>({
    {18, false, {2, 2, 2, 2}},
    {34, false, {3, 4, 6, 3}},
    {50, true, {3, 4, 6, 3}},
    {101, true, {3, 4, 23, 3}},
    {152, true, {3, 8, 36, 3}},
});

/// The stride of the first layers.
std::int64_t stem_stride(const ResNetOptions& options) {
  return options.small_images ? 1 : 4;
}

void check_positive(const char* name, std::int64_t value) {
  check_argument(value >= 1, "resnet: ", name, " is ", value, "; expected 1 or more");
}

void check_output_stride(const ResNetOptions& options) {
  if (!options.output_stride) return;
  std::vector<std::int64_t> allowed;
  for (std::int64_t stride = 1; stride <= kDownsampling; stride *= 2) {
    allowed.push_back(stride * stem_stride(options));
  }
  check_argument(std::ranges::find(allowed, *options.output_stride) != allowed.end(),
                 "resnet: output_stride is ", *options.output_stride, "; expected one of ",
                 base::join(allowed, ", "));
}

void check_resnet(const ResNetOptions& options) {
  check_positive("num_classes", options.num_classes);
  check_positive("groups", options.groups);
  check_positive("width_per_group", options.width_per_group);
  check_argument(options.depth_multiplier > 0.0 && std::isfinite(options.depth_multiplier),
                 "resnet: depth_multiplier is ", options.depth_multiplier,
                 "; expected a positive number");
  check_argument(options.dropout >= 0.0 && options.dropout < 1.0, "resnet: dropout is ",
                 options.dropout, "; expected a rate from 0 up to, but not including, 1");
  const bool is_plain = options.groups == 1 && options.width_per_group == kChannels;
  const bool has_bottlenecks = resnet_blocks(options.depth).has_bottlenecks;
  check_argument(has_bottlenecks || options.version != ResNetVersion::kKeras, "resnet: depth is ",
                 options.depth, "; Keras's networks have the depths 50, 101, 152");
  check_argument(has_bottlenecks || is_plain, "resnet: depth ", options.depth,
                 " has no bottleneck units, which groups ", options.groups, " and width_per_group ",
                 options.width_per_group, " are for; use depth 50, 101 or 152");
  check_output_stride(options);
}

Initializer he_fan_out() {
  return variables::variance_scaling_initializer(
      {.scale = 2.0,
       .mode = variables::FanMode::kFanOut,
       .distribution = variables::Distribution::kUntruncatedNormal});
}

ResidualStyle style_of(const ResNetOptions& options) {
  const bool is_keras = options.version == ResNetVersion::kKeras;
  return {
      .weights_initializer = is_keras ? variables::glorot_uniform_initializer() : he_fan_out(),
      .classifier_initializer = is_keras ? variables::glorot_uniform_initializer() : Initializer(),
      .use_bias = is_keras,
      .batch_norm_decay = options.batch_norm_decay.value_or(is_keras ? 0.99 : 0.9),
      .batch_norm_epsilon = options.batch_norm_epsilon.value_or(is_keras ? 1.001e-5 : 1e-5),
      .zero_init_residual = options.zero_init_residual,
      .first_has_stride = options.version != ResNetVersion::kV15,
      .mode = options.mode};
}

/// The forward pass, which records its end points.
class ResNetPass {
 public:
  explicit ResNetPass(const ResNetOptions& options)
      : options_(options), blocks_(resnet_blocks(options.depth)), style_(style_of(options)) {}

  ResNetResult operator()(const at::Tensor& images) {
    at::Tensor net = stem(comm::begin_layer("conv1", images));
    for (std::size_t block = 0; block < blocks_.units.size(); ++block)
      net = apply_block(net, block);
    net = comm::begin_layer("logits", net);
    if (options_.global_pool) net = recorded("global_pool", net.mean({2, 3}));
    const at::Tensor result = recorded("logits", logits(net));
    recorded("predictions", at::softmax(result, 1));
    return {result, std::move(points_)};
  }

 private:
  at::Tensor recorded(const std::string& name, at::Tensor value) {
    points_.set(name, value);
    return value;
  }

  std::int64_t scaled(double channels) const {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(channels));
  }

  at::Tensor stem(const at::Tensor& images) {
    const bool is_small = options_.small_images;
    const at::Tensor net = recorded("conv1", residual_convolution(images,
                                                                  {.channels = planes(0),
                                                                   .kernel = is_small ? 3 : 7,
                                                                   .stride = is_small ? 1 : 2,
                                                                   .scope = "conv1"},
                                                                  style_));
    if (is_small) return net;
    return recorded(
        "pool1",
        layers::max_pool2d(
            net, 3, {.stride = 2, .padding = layers::Padding::kSymmetric, .scope = "pool1"}));
  }

  /// The channels of 3x3 convolutions without groups.
  std::int64_t planes(std::size_t block) const {
    return scaled(static_cast<double>(kChannels << block) * options_.depth_multiplier);
  }

  ResidualUnit unit_of(std::size_t block) const {
    const double width =
        static_cast<double>(planes(block) * options_.width_per_group) / double{kChannels};
    return {.channels = planes(block) * (blocks_.has_bottlenecks ? kExpansion : 1),
            .width = scaled(width) * options_.groups,
            .groups = options_.groups};
  }

  at::Tensor apply_block(at::Tensor net, std::size_t block) {
    const std::string name = "block" + std::to_string(block + 1);
    const auto scope = variables::variable_scope(name);
    ResidualUnit unit = unit_of(block);
    unit.rate_before = rate_;
    if (block > 0) take_stride(unit);
    for (int number = 1; number <= blocks_.units[block]; ++number) {
      unit.rate = rate_;
      unit.scope = str_cat("unit_", number);
      const std::string unit_name = name + "/" + unit.scope;
      net = comm::begin_layer(unit_name, net);
      net = recorded(unit_name, blocks_.has_bottlenecks ? bottleneck_unit(net, unit, style_)
                                                        : basic_unit(net, unit, style_));
      unit.stride = 1;
      unit.rate_before = rate_;
    }
    return recorded(name, net);
  }

  /// Halves the image, or doubles the dilation.
  void take_stride(ResidualUnit& unit) {
    const std::int64_t last =
        options_.output_stride.value_or(kDownsampling * stem_stride(options_));
    if (stride_ < last) {
      unit.stride = 2;
      stride_ *= 2;
    } else {
      rate_ *= 2;
    }
  }

  at::Tensor logits(const at::Tensor& features) const {
    const at::Tensor kept = layers::dropout(
        features, {.keep_prob = 1.0 - options_.dropout, .mode = options_.mode, .scope = "dropout"});
    if (options_.global_pool) return residual_classifier(kept, options_.num_classes, style_);
    return residual_classifier(kept.permute({0, 2, 3, 1}), options_.num_classes, style_)
        .permute({0, 3, 1, 2});
  }

  const ResNetOptions& options_;
  const ResNetBlocks& blocks_;
  ResidualStyle style_;
  layers::EndPoints points_;
  std::int64_t stride_ = stem_stride(options_);  // so far
  std::int64_t rate_ = 1;
};

}  // namespace

const ResNetBlocks& resnet_blocks(int depth) {
  std::vector<int> depths;
  for (const ResNetBlocks& blocks : kResNets) {
    if (blocks.depth == depth) return blocks;
    depths.push_back(blocks.depth);
  }
  refuse("resnet: depth is ", depth, "; the networks have the depths ", base::join(depths, ", "));
}

ResNetResult resnet(const at::Tensor& images, const ResNetOptions& options) {
  check_resnet(options);
  const ModelScope scope(options.scope, options.reuse);
  return ResNetPass(options)(images);
}

}  // namespace brigade::models
