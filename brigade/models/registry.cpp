#include "brigade/models/registry.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/base/unknown_name.h"
#include "brigade/layers/end_points.h"
#include "brigade/models/cifar_resnet.h"
#include "brigade/models/inception_v3.h"
#include "brigade/models/mlp.h"
#include "brigade/models/mnist_cnn.h"
#include "brigade/models/resnet.h"
#include "brigade/models/slim_net.h"
#include "brigade/variables/graph.h"

namespace brigade::models {
namespace {

constexpr const char* kAuxLogits = "AuxLogits";

std::shared_ptr<Classifier> make_mlp(const ModelOptions& options) {
  return std::make_shared<Mlp>(MlpOptions{.inputs = options.inputs,
                                          .hidden = options.hidden,
                                          .classes = options.classes,
                                          .end_points = options.end_points});
}

std::shared_ptr<Classifier> make_mnist_cnn(const ModelOptions& options) {
  if (options.inputs != 784) {
    refuse("model mnist_cnn takes 28x28 images, 784 values per example; the data has ",
           options.inputs);
  }
  return std::make_shared<MnistCnn>(MnistCnnOptions{.classes = options.classes,
                                                    .dropout = options.dropout.value_or(0.0),
                                                    .end_points = options.end_points});
}

ClassifierFunction make_slim_net(const ModelOptions& options) {
  return [made = SlimNetOptions{.classes = options.classes, .end_points = options.end_points}](
             const at::Tensor& images, variables::Mode) { return slim_net(images, made); };
}

ClassifierFunction make_inception_v3(const ModelOptions& options) {
  const bool is_torchvisions = options.original == Original::kTorchvision;
  const InceptionV3ArgScopeOptions defaults{.batch_norm_decay = is_torchvisions ? 0.9 : 0.9997,
                                            .batch_norm_scale = is_torchvisions,
                                            .count_padding = is_torchvisions};
  const InceptionV3Options made{.num_classes = options.classes,
                                .dropout_keep_prob = 1.0 - options.dropout.value_or(0.2),
                                .global_pool = is_torchvisions};
  const bool has_auxiliary = options.auxiliary_logits;
  const bool takes_auxiliary = has_auxiliary && std::ranges::find(options.end_points, kAuxLogits) !=
                                                    options.end_points.end();
  return [=, wanted = options.end_points](const at::Tensor& images, variables::Mode mode) {
    const auto scope = layers::arg_scope(inception_v3_arg_scope(defaults));
    auto in_mode = made;
    in_mode.mode = mode;
    const bool is_training = mode == variables::Mode::kTraining;
    in_mode.create_aux_logits = has_auxiliary && (is_training || takes_auxiliary);
    const InceptionV3Result net = inception_v3(images, in_mode);
    if (has_auxiliary && is_training)
      variables::require_graph("inception_v3")
          .add_to_collection(kAuxiliaryLogits, kAuxLogits, net.end_points.at(kAuxLogits));
    layers::add_end_points("inception_v3", net.end_points, wanted);
    return net.output;
  };
}

/// The logits of `net`, whose end points it adds.
template <class Result>
at::Tensor logits_of(std::string_view model, const Result& net,
                     const std::vector<std::string>& wanted) {
  layers::add_end_points(model, net.end_points, wanted);
  return net.logits;
}

template <int kDepth, ResNetVersion kVersion = ResNetVersion::kV15>
ClassifierFunction make_resnet(const ModelOptions& options) {
  const ResNetOptions made{.depth = kDepth,
                           .num_classes = options.classes,
                           .version = kVersion,
                           .dropout = options.dropout.value_or(0.0)};
  return [made, wanted = options.end_points](const at::Tensor& images, variables::Mode mode) {
    auto in_mode = made;
    in_mode.mode = mode;
    return logits_of(base::str_cat("resnet", kDepth), resnet(images, in_mode), wanted);
  };
}

ClassifierFunction make_cifar_resnet20(const ModelOptions& options) {
  return [classes = options.classes, wanted = options.end_points](const at::Tensor& images,
                                                                  variables::Mode mode) {
    const auto net = cifar_resnet(images, {.depth = 20, .num_classes = classes, .mode = mode});
    return logits_of("cifar_resnet20", net, wanted);
  };
}

/// A model is either a module or a function of layers.
struct ModelEntry {
  std::string_view name;
  std::shared_ptr<Classifier> (*module)(const ModelOptions&) = nullptr;
  ClassifierFunction (*function)(const ModelOptions&) = nullptr;
  std::array<std::int64_t, 3> image_shape = {1, 28, 28};
};

constexpr auto kModels = std::to_array<ModelEntry>({
    {.name = "cifar_resnet20", .function = make_cifar_resnet20, .image_shape = {3, 32, 32}},
    {.name = "inception_v3", .function = make_inception_v3, .image_shape = {3, 299, 299}},
    {.name = "mlp", .module = make_mlp},
    {.name = "mnist_cnn", .module = make_mnist_cnn},
    {.name = "resnet101", .function = make_resnet<101>, .image_shape = {3, 224, 224}},
    {.name = "resnet152", .function = make_resnet<152>, .image_shape = {3, 224, 224}},
    {.name = "resnet18", .function = make_resnet<18>, .image_shape = {3, 224, 224}},
    {.name = "resnet34", .function = make_resnet<34>, .image_shape = {3, 224, 224}},
    {.name = "resnet50", .function = make_resnet<50>, .image_shape = {3, 224, 224}},
    {.name = "resnet50_keras",
     .function = make_resnet<50, ResNetVersion::kKeras>,
     .image_shape = {3, 224, 224}},
    {.name = "slim_net", .function = make_slim_net},
});
static_assert(std::ranges::is_sorted(kModels, {}, &ModelEntry::name));

/// Throws for an unknown name.
const ModelEntry& entry_of(std::string_view name) {
  for (const ModelEntry& entry : kModels) {
    if (entry.name == name) return entry;
  }
  const auto names = model_names();
  refuse("no model is called '", name, "'", base::did_you_mean(name, names),
         " Models: ", base::join(names, ", "));
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelEntry& entry : kModels) names.emplace_back(entry.name);
  return names;
}

bool is_model_function(std::string_view name) {
  return std::ranges::any_of(kModels, [&](const ModelEntry& entry) {
    return entry.name == name && entry.function != nullptr;
  });
}

std::vector<std::int64_t> image_shape(std::string_view name) {
  const ModelEntry& entry = entry_of(name);
  return {entry.image_shape.begin(), entry.image_shape.end()};
}

std::shared_ptr<Classifier> make_model(std::string_view name, const ModelOptions& options) {
  const ModelEntry& entry = entry_of(name);
  if (entry.module != nullptr) return entry.module(options);
  auto example = options.image_shape.empty() ? image_shape(name) : options.image_shape;
  example.insert(example.begin(), 0);  // no images: variables need their shape alone
  return std::make_shared<FunctionClassifier>(std::string(name), entry.function(options),
                                              at::zeros(example));
}

ClassifierFunction make_model_function(std::string_view name, const ModelOptions& options) {
  const ModelEntry& entry = entry_of(name);
  if (entry.function != nullptr) return entry.function(options);
  refuse("model ", name, " is a module: use make_model and Strategy::create");
}

}  // namespace brigade::models
