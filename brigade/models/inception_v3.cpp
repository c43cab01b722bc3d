#include "brigade/models/inception_v3.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <ranges>
#include <span>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/base/unknown_name.h"
#include "brigade/comm/stage_passes.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/conv2d.h"
#include "brigade/layers/layer_scope.h"
#include "brigade/layers/normalization.h"
#include "brigade/layers/pooling.h"
#include "brigade/layers/regularizers.h"
#include "brigade/models/model_scope.h"

namespace brigade::models {
namespace {

using layers::Padding;
using layers::Size2d;
using variables::variable_scope;

/// The number of channels of a convolution, given the original's.
struct Depth {
  double multiplier;
  std::int64_t least;
  std::int64_t operator()(std::int64_t original) const {
    return std::max(static_cast<std::int64_t>(static_cast<double>(original) * multiplier), least);
  }
};

struct Convolution {
  const char* name;
  std::int64_t channels;  // of the original
  Size2d kernel;
  Size2d stride = 1;
  Padding padding = Padding::kSame;
};

at::Tensor convolve(const Depth& depth, const at::Tensor& net, const Convolution& made) {
  return layers::conv2d(net, depth(made.channels), made.kernel,
                        {.stride = made.stride, .padding = made.padding, .scope = made.name});
}

/// One branch of a block: convolutions in sequence.
at::Tensor branch(const Depth& depth, const char* name, at::Tensor net,
                  std::initializer_list<Convolution> convolutions) {
  const auto scope = variable_scope(name);
  for (const Convolution& each : convolutions) net = convolve(depth, net, each);
  return net;
}

/// A branch that ends in two convolutions side by side.
at::Tensor forked_branch(const Depth& depth, const char* name, at::Tensor net,
                         std::initializer_list<Convolution> convolutions, const Convolution& left,
                         const Convolution& right) {
  const auto scope = variable_scope(name);
  for (const Convolution& each : convolutions) net = convolve(depth, net, each);
  const auto first = convolve(depth, net, left);
  return at::cat({first, convolve(depth, net, right)}, 1);
}

at::Tensor average_branch(const Depth& depth, const at::Tensor& net, std::int64_t channels) {
  const auto scope = variable_scope("Branch_3");
  const auto mean = layers::avg_pool2d(
      net, 3, {.stride = 1, .padding = Padding::kSame, .scope = "AvgPool_0a_3x3"});
  return convolve(depth, mean, {"Conv2d_0b_1x1", channels, 1});
}

at::Tensor max_pooled(const Depth&, const char* name, const at::Tensor& net) {
  return layers::max_pool2d(net, 3, {.stride = 2, .padding = Padding::kValid, .scope = name});
}

at::Tensor max_branch(const Depth& depth, const at::Tensor& net) {
  const auto scope = variable_scope("Branch_2");
  return max_pooled(depth, "MaxPool_1a_3x3", net);
}

constexpr Convolution first_1x1(std::int64_t channels) {
  return {"Conv2d_0a_1x1", channels, 1};
}

template <std::int64_t kChannels, int kKernel, int kStride = 1, Padding kPadding = Padding::kValid>
at::Tensor convolved(const Depth& depth, const char* name, const at::Tensor& net) {
  return convolve(depth, net, {name, kChannels, kKernel, kStride, kPadding});
}

// The blocks of a name have equal branches. Where TF-Slim gave layers of one block other names,
// they are arguments.

at::Tensor mixed_5(const Depth& depth, const char* name, const at::Tensor& net,
                   std::int64_t averaged, const char* name_of_1x1, const char* name_of_5x5) {
  const auto scope = variable_scope(name);
  const auto b0 = branch(depth, "Branch_0", net, {first_1x1(64)});
  const auto b1 = branch(depth, "Branch_1", net, {{name_of_1x1, 48, 1}, {name_of_5x5, 64, 5}});
  const auto b2 = branch(depth, "Branch_2", net,
                         {first_1x1(64), {"Conv2d_0b_3x3", 96, 3}, {"Conv2d_0c_3x3", 96, 3}});
  return at::cat({b0, b1, b2, average_branch(depth, net, averaged)}, 1);
}

template <std::int64_t kAveraged>
at::Tensor mixed_5(const Depth& depth, const char* name, const at::Tensor& net) {
  return mixed_5(depth, name, net, kAveraged, "Conv2d_0a_1x1", "Conv2d_0b_5x5");
}

at::Tensor mixed_5c(const Depth& depth, const char* name, const at::Tensor& net) {
  return mixed_5(depth, name, net, 64, "Conv2d_0b_1x1", "Conv_1_0c_5x5");
}

at::Tensor mixed_6a(const Depth& depth, const char* name, const at::Tensor& net) {
  const auto scope = variable_scope(name);
  const auto b0 = branch(depth, "Branch_0", net, {{"Conv2d_1a_1x1", 384, 3, 2, Padding::kValid}});
  const auto b1 = branch(
      depth, "Branch_1", net,
      {first_1x1(64), {"Conv2d_0b_3x3", 96, 3}, {"Conv2d_1a_1x1", 96, 3, 2, Padding::kValid}});
  return at::cat({b0, b1, max_branch(depth, net)}, 1);
}

template <std::int64_t kInner>
at::Tensor mixed_6(const Depth& depth, const char* name, const at::Tensor& net) {
  const auto scope = variable_scope(name);
  const auto b0 = branch(depth, "Branch_0", net, {first_1x1(192)});
  const auto b1 = branch(
      depth, "Branch_1", net,
      {first_1x1(kInner), {"Conv2d_0b_1x7", kInner, {1, 7}}, {"Conv2d_0c_7x1", 192, {7, 1}}});
  const auto b2 = branch(depth, "Branch_2", net,
                         {first_1x1(kInner),
                          {"Conv2d_0b_7x1", kInner, {7, 1}},
                          {"Conv2d_0c_1x7", kInner, {1, 7}},
                          {"Conv2d_0d_7x1", kInner, {7, 1}},
                          {"Conv2d_0e_1x7", 192, {1, 7}}});
  return at::cat({b0, b1, b2, average_branch(depth, net, 192)}, 1);
}

at::Tensor mixed_7a(const Depth& depth, const char* name, const at::Tensor& net) {
  const auto scope = variable_scope(name);
  const auto b0 = branch(depth, "Branch_0", net,
                         {first_1x1(192), {"Conv2d_1a_3x3", 320, 3, 2, Padding::kValid}});
  const auto b1 = branch(depth, "Branch_1", net,
                         {first_1x1(192),
                          {"Conv2d_0b_1x7", 192, {1, 7}},
                          {"Conv2d_0c_7x1", 192, {7, 1}},
                          {"Conv2d_1a_3x3", 192, 3, 2, Padding::kValid}});
  return at::cat({b0, b1, max_branch(depth, net)}, 1);
}

at::Tensor mixed_7(const Depth& depth, const char* name, const at::Tensor& net,
                   const char* name_of_3x1) {
  const auto scope = variable_scope(name);
  const auto b0 = branch(depth, "Branch_0", net, {first_1x1(320)});
  const auto b1 = forked_branch(depth, "Branch_1", net, {first_1x1(384)},
                                {"Conv2d_0b_1x3", 384, {1, 3}}, {name_of_3x1, 384, {3, 1}});
  const auto b2 = forked_branch(depth, "Branch_2", net, {first_1x1(448), {"Conv2d_0b_3x3", 384, 3}},
                                {"Conv2d_0c_1x3", 384, {1, 3}}, {"Conv2d_0d_3x1", 384, {3, 1}});
  return at::cat({b0, b1, b2, average_branch(depth, net, 192)}, 1);
}

at::Tensor mixed_7b(const Depth& depth, const char* name, const at::Tensor& net) {
  return mixed_7(depth, name, net, "Conv2d_0b_3x1");
}

at::Tensor mixed_7c(const Depth& depth, const char* name, const at::Tensor& net) {
  return mixed_7(depth, name, net, "Conv2d_0c_3x1");
}

/// A window that stays inside the image, which it therefore makes smaller.
struct Shrinking {
  std::int64_t window = 1, stride = 1;
  std::int64_t after(std::int64_t side) const {
    return side < window ? 0 : (side - window) / stride + 1;
  }
  std::int64_t smallest_before(std::int64_t side) const { return (side - 1) * stride + window; }
};

struct Stage {
  const char* name;
  at::Tensor (*apply)(const Depth& depth, const char* name, const at::Tensor& net);
  Shrinking shrinking = {};
};

constexpr auto kStages = std::to_array<Stage>({
    {"Conv2d_1a_3x3", convolved<32, 3, 2>, {3, 2}},
    {"Conv2d_2a_3x3", convolved<32, 3>, {3, 1}},
    {"Conv2d_2b_3x3", convolved<64, 3, 1, Padding::kSame>},
    {"MaxPool_3a_3x3", max_pooled, {3, 2}},
    {"Conv2d_3b_1x1", convolved<80, 1>},
    {"Conv2d_4a_3x3", convolved<192, 3>, {3, 1}},
    {"MaxPool_5a_3x3", max_pooled, {3, 2}},
    {"Mixed_5b", mixed_5<32>},
    {"Mixed_5c", mixed_5c},
    {"Mixed_5d", mixed_5<64>},
    {"Mixed_6a", mixed_6a, {3, 2}},
    {"Mixed_6b", mixed_6<128>},
    {"Mixed_6c", mixed_6<160>},
    {"Mixed_6d", mixed_6<160>},
    {"Mixed_6e", mixed_6<192>},
    {"Mixed_7a", mixed_7a, {3, 2}},
    {"Mixed_7b", mixed_7b},
    {"Mixed_7c", mixed_7c},
});

constexpr const char* kStageOfAuxiliaryHead = "Mixed_6e";
constexpr Shrinking kAuxiliaryPool{5, 3};
constexpr std::int64_t kAuxiliaryWindow = 5;
constexpr Shrinking kLastPool{8, 2};

/// The stages up to `final_endpoint`.
std::span<const Stage> stages_to(std::string_view final_endpoint) {
  const auto found = std::ranges::find(kStages, final_endpoint, &Stage::name);
  if (found == kStages.end()) {
    throw base::unknown_name("end point of inception_v3", final_endpoint, "End points",
                             inception_v3_end_points());
  }
  return {kStages.begin(), found + 1};
}

/// The side of the smallest image for which the stages leave `side` positions.
std::int64_t smallest_image(std::span<const Stage> stages, std::int64_t side) {
  for (const Stage& stage : std::views::reverse(stages)) {
    side = stage.shrinking.smallest_before(side);
  }
  return side;
}

/// The positions that the stages leave of `side` pixels.
std::int64_t side_after(std::span<const Stage> stages, std::int64_t side) {
  for (const Stage& stage : stages) side = stage.shrinking.after(side);
  return side;
}

/// As much of a square window as there is.
Size2d fitting(std::int64_t window, std::int64_t height, std::int64_t width) {
  return {std::min(window, height), std::min(window, width)};
}

void check_images(const char* model, const at::Tensor& images, std::int64_t smallest) {
  if (!images.defined()) refuse(model, ": images are an undefined tensor");
  if (images.dim() != 4 || images.size(1) != 3) {
    refuse(model, ": images have shape ", images.sizes(), "; expected [N, 3, height, width]");
  }
  if (images.size(2) >= smallest && images.size(3) >= smallest) return;
  refuse(model, ": images have shape ", images.sizes(), "; with these options they must be ",
         smallest, " x ", smallest, " or larger");
}

void check_depth(const char* model, const Depth& depth) {
  if (!(depth.multiplier > 0.0)) {
    refuse(model, ": depth_multiplier is ", depth.multiplier, "; expected more than 0");
  }
  if (depth.least < 1) {
    refuse(model, ": min_depth is ", depth.least, "; expected 1 or more");
  }
}

InceptionV3Result apply_stages(std::span<const Stage> stages, const Depth& depth,
                               const at::Tensor& images) {
  InceptionV3Result result{.output = images};
  for (const Stage& stage : stages) {
    result.output = comm::begin_layer(stage.name, result.output);
    result.output = stage.apply(depth, stage.name, result.output);
    result.end_points.set(stage.name, result.output);
  }
  return result;
}

constexpr const char* kName = "inception_v3";

bool has_auxiliary_head(const InceptionV3Options& options) {
  return options.create_aux_logits && options.num_classes > 0;
}

/// Refuses images whose logits would have several positions where there is to be one.
void check_one_position(const at::Tensor& images, const InceptionV3Options& options) {
  if (!options.spatial_squeeze || options.global_pool || options.num_classes == 0) return;
  const auto side = std::max(images.size(2), images.size(3));
  const auto last = kLastPool.after(side_after(kStages, side));
  const auto auxiliary = kAuxiliaryPool.after(side_after(stages_to(kStageOfAuxiliaryHead), side)) -
                         kAuxiliaryWindow + 1;
  if (last <= 1 && (auxiliary <= 1 || !has_auxiliary_head(options))) return;
  refuse(kName, ": the logits of images of shape ", images.sizes(),
         " have several positions, which spatial_squeeze cannot remove; set global_pool, or "
         "spatial_squeeze to false");
}

void check_options(const at::Tensor& images, const InceptionV3Options& options) {
  check_depth(kName, {options.depth_multiplier, options.min_depth});
  layers::check_keep_prob(kName, options.dropout_keep_prob);
  if (options.num_classes < 0) {
    refuse(kName, ": num_classes is ", options.num_classes, "; expected 0 or more");
  }
  check_images(kName, images,
               has_auxiliary_head(options)
                   ? smallest_image(stages_to(kStageOfAuxiliaryHead), kAuxiliaryPool.window)
                   : smallest_image(kStages, 1));
  check_one_position(images, options);
}

at::Tensor mean_of_positions(const at::Tensor& net) {
  return net.mean({2, 3}, /*keepdim=*/true);
}

/// One value per class, without normalizer and activation.
at::Tensor classified(const at::Tensor& net, const InceptionV3Options& options, const char* name,
                      const std::optional<variables::Initializer>& weights = std::nullopt) {
  const auto logits = layers::conv2d(net, options.num_classes, 1,
                                     {.stride = 1,
                                      .padding = Padding::kSame,
                                      .activation = nullptr,
                                      .normalizer = nullptr,
                                      .weights_initializer = weights,
                                      .scope = name});
  return options.spatial_squeeze ? logits.flatten(1) : logits;
}

/// A layer's name with its window, which depends on the size of the images.
std::string with_window(const char* name, const Size2d& window) {
  return base::str_cat(name, "_", window.height, "x", window.width);
}

at::Tensor auxiliary_logits(const Depth& depth, at::Tensor net, const InceptionV3Options& options) {
  const auto scope = variable_scope("AuxLogits");
  net = layers::avg_pool2d(
      net, kAuxiliaryPool.window,
      {.stride = kAuxiliaryPool.stride, .padding = Padding::kValid, .scope = "AvgPool_1a_5x5"});
  net = convolve(depth, net, {"Conv2d_1b_1x1", 128, 1});
  const auto window = fitting(kAuxiliaryWindow, net.size(2), net.size(3));
  net = layers::conv2d(net, depth(768), window,
                       {.stride = 1,
                        .padding = Padding::kValid,
                        .weights_initializer = variables::truncated_normal_initializer(0.0, 0.01),
                        .scope = with_window("Conv2d_2a", window)});
  if (options.global_pool) net = mean_of_positions(net);
  return classified(net, options, "Conv2d_2b_1x1",
                    variables::truncated_normal_initializer(0.0, 0.001));
}

at::Tensor last_pooled(const at::Tensor& net, const InceptionV3Options& options,
                       layers::EndPoints& end_points) {
  if (options.global_pool) {
    end_points.set("global_pool", mean_of_positions(net));
    return end_points.at("global_pool");
  }
  const auto window = fitting(kLastPool.window, net.size(2), net.size(3));
  end_points.set("AvgPool_1a", layers::avg_pool2d(net, window,
                                                  {.stride = kLastPool.stride,
                                                   .padding = Padding::kValid,
                                                   .scope = with_window("AvgPool_1a", window)}));
  return end_points.at("AvgPool_1a");
}

/// The end of the model: `result` has the output and the end points of the base.
void add_logits(InceptionV3Result& result, const InceptionV3Options& options) {
  const auto scope = variable_scope("Logits");
  result.output = comm::begin_layer("Logits", result.output);
  result.output = last_pooled(result.output, options, result.end_points);
  if (options.num_classes == 0) return;
  const auto kept = layers::dropout(
      result.output, {.keep_prob = options.dropout_keep_prob, .scope = "Dropout_1b"});
  result.end_points.set("PreLogits", kept);
  result.output = classified(kept, options, "Conv2d_1c_1x1");
  result.end_points.set("Logits", result.output);
}

/// The softmax over the classes, whether or not there are positions.
at::Tensor predictions(const at::Tensor& logits) {
  return layers::softmax(logits.movedim(1, -1), "Predictions").movedim(-1, 1);
}

}  // namespace

layers::CapturedArgScope inception_v3_arg_scope(const InceptionV3ArgScopeOptions& options) {
  const auto weights = layers::arg_scope<layers::conv2d, layers::fully_connected>(
      {.weights_regularizer = layers::l2_regularizer(options.weight_decay)});
  const auto convolutions = layers::arg_scope<layers::conv2d>(
      {.activation = layers::relu,
       .normalizer = layers::batch_normalizer({.decay = options.batch_norm_decay,
                                               .scale = options.batch_norm_scale,
                                               .epsilon = options.batch_norm_epsilon}),
       .weights_initializer = variables::truncated_normal_initializer(0.0, options.stddev)});
  const auto pooling =
      layers::arg_scope<layers::avg_pool2d>({.count_padding = options.count_padding});
  return layers::current_arg_scope();
}

std::vector<std::string> inception_v3_end_points() {
  std::vector<std::string> names;
  for (const Stage& stage : kStages) names.emplace_back(stage.name);
  return names;
}

InceptionV3Result inception_v3_base(const at::Tensor& images,
                                    const InceptionV3BaseOptions& options) {
  const Depth depth{options.depth_multiplier, options.min_depth};
  const auto stages = stages_to(options.final_endpoint);
  check_depth("inception_v3_base", depth);
  check_images("inception_v3_base", images, smallest_image(stages, 1));
  const ModelScope scope(options.scope, options.reuse);
  const auto mode = layers::arg_scope<layers::batch_norm>({.mode = options.mode});
  return apply_stages(stages, depth, images);
}

InceptionV3Result inception_v3(const at::Tensor& images, const InceptionV3Options& options) {
  check_options(images, options);
  const Depth depth{options.depth_multiplier, options.min_depth};
  const ModelScope scope(options.scope, options.reuse);
  const auto mode = layers::arg_scope<layers::batch_norm, layers::dropout>({.mode = options.mode});
  auto result = apply_stages(kStages, depth, images);
  if (has_auxiliary_head(options)) {
    const auto& start = result.end_points.at(kStageOfAuxiliaryHead);
    result.end_points.set("AuxLogits", auxiliary_logits(depth, start, options));
  }
  add_logits(result, options);
  if (options.num_classes > 0) result.end_points.set("Predictions", predictions(result.output));
  return result;
}

}  // namespace brigade::models
