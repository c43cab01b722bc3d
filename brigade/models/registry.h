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

/// What every model of the table can be asked for; a model ignores what it has no part for.
struct ModelOptions {
  /// Values an example ("mlp"; "mnist_cnn" takes 28x28 images only).
  std::int64_t inputs = 784;
  std::int64_t classes = 10;
  /// Hidden widths ("mlp").
  std::vector<std::int64_t> hidden = {64, 64, 64};
  /// Dropped share of the hidden values in training ("mnist_cnn").
  double dropout = 0.0;
};

/// The names of all models, sorted: modules, for `make_model`, and functions, for
/// `make_model_function`.
std::vector<std::string> model_names();
/// Whether the model called `name` is written as a function of layers.
bool is_model_function(std::string_view name);

/// A model as a function of layers: the logits [N, classes] of images [N, 1, 28, 28]. For
/// `Strategy::build`.
using ModelFunction = std::function<at::Tensor(const at::Tensor& images, variables::Mode mode)>;

/// Builds the model called `name`. Throws `Error{kInvalidArgument}` that lists the names, and the
/// nearest, if there is none of that name, if it is a function, or if it refuses an option.
std::shared_ptr<Classifier> make_model(std::string_view name, const ModelOptions& options = {});

/// The function of the model called `name`. Throws as `make_model`.
ModelFunction make_model_function(std::string_view name, const ModelOptions& options = {});

}  // namespace brigade::models
