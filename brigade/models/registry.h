#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/models/classifier.h"
#include "brigade/variables/mode.h"

namespace brigade::models {

/// The options of all models in the registry; a model ignores options that it does not have.
struct ModelOptions {
  /// The number of values per example ("mlp"; "mnist_cnn" takes 28x28 images only).
  std::int64_t inputs = 784;
  std::int64_t classes = 10;
  /// The widths of the hidden layers ("mlp").
  std::vector<std::int64_t> hidden = {64, 64, 64};
  /// The dropout rate of the hidden values in training ("mnist_cnn").
  double dropout = 0.0;
};

/// The names of all models, sorted: modules, for `make_model`, and functions, for
/// `make_model_function`.
std::vector<std::string> model_names();
/// Whether the model called `name` is a function of layers.
bool is_model_function(std::string_view name);

/// A model as a function of layers: returns the logits [N, classes] of images [N, 1, 28, 28]. For
/// `Strategy::create`.
using ModelFunction = std::function<at::Tensor(const at::Tensor& images, variables::Mode mode)>;

/// Creates the model called `name`. Throws `Error{kInvalidArgument}` for an unknown name (with the
/// nearest name and all names), if the model is a function, and for an invalid option.
std::shared_ptr<Classifier> make_model(std::string_view name, const ModelOptions& options = {});

/// Returns the function of the model called `name`. Throws as `make_model`.
ModelFunction make_model_function(std::string_view name, const ModelOptions& options = {});

}  // namespace brigade::models
