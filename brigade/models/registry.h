#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/models/classifier.h"
#include "brigade/models/function_classifier.h"

namespace brigade::models {

/// The library whose model of a name is meant, where two have published one with weights.
enum class Original {
  /// as TF-Slim's: batch norm without gamma, averages that leave out the zeros around images
  kTfSlim,
  kTorchvision,  ///< as torchvision's: batch norm with gamma, padding as PyTorch's layers
};

/// The collection of the graph to which a model adds its auxiliary logits in training
/// (`ModelOptions::auxiliary_logits`): `layers::end_points(kAuxiliaryLogits)`.
inline constexpr const char* kAuxiliaryLogits = "auxiliary_logits";

/// The options of all models in the registry; a model ignores options that it does not have.
struct ModelOptions {
  /// The number of values per example ("mlp"; "mnist_cnn" takes 28x28 images only).
  std::int64_t inputs = 784;
  std::int64_t classes = 10;
  /// The widths of the hidden layers ("mlp").
  std::vector<std::int64_t> hidden = {64, 64, 64};
  /// The dropout rate in training: of the hidden values ("mnist_cnn", default 0) or of those before
  /// the logits ("inception_v3", default 0.2; "resnet50" and its siblings, default 0). Unset: the
  /// model's default.
  std::optional<double> dropout = std::nullopt;
  /// The shape of one image: channels, height, width. Empty: that which the model was made for
  /// (`image_shape`). A model that is a function also takes images of other sizes.
  std::vector<std::int64_t> image_shape = {};
  /// Which of the originals the model equals ("inception_v3").
  Original original = Original::kTfSlim;
  /// Whether the model has auxiliary classifiers ("inception_v3"), whose logits are in the
  /// collection `kAuxiliaryLogits` of the graph in training. Add their losses, each times 0.4.
  bool auxiliary_logits = false;
  /// The end points that each pass adds to the collection `layers::kEndPoints` of the graph, for
  /// `train::extract_features`. An end point is the result of a layer, under the name that the
  /// model's function gives it: "PreLogits", "block3", "global_pool". "mlp", "mnist_cnn" and
  /// "slim_net" have one for each layer with weights or pooling, after its activation: "dense1",
  /// "conv1", "pool1", "fc1". In plain libtorch, open a `variables::Graph` around the forward pass.
  ///
  /// No more than these are kept until the end of a pass. An unknown one is refused when the
  /// model's variables are created, with the names of all. "AuxLogits" needs `auxiliary_logits`,
  /// and is then computed in evaluation, too.
  std::vector<std::string> end_points = {};
};

/// The names of all models, sorted: modules, for `make_model`, and functions, for
/// `make_model_function`.
std::vector<std::string> model_names();
/// Whether the model called `name` is a function of layers.
bool is_model_function(std::string_view name);

/// The shape of one image that the model called `name` was made for: {channels, height, width}.
/// Throws as `make_model`.
std::vector<std::int64_t> image_shape(std::string_view name);

/// Creates the model called `name`; one that is a function, as a `FunctionClassifier`. Throws
/// `Error{kInvalidArgument}` for an unknown name (with the nearest name and all names), and for an
/// invalid option.
std::shared_ptr<Classifier> make_model(std::string_view name, const ModelOptions& options = {});

/// Returns the function of the model called `name`. Throws as `make_model`, and if the model is a
/// module.
ClassifierFunction make_model_function(std::string_view name, const ModelOptions& options = {});

}  // namespace brigade::models
