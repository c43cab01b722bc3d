#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/models/classifier.h"

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

/// The names that `make_model` knows, sorted.
std::vector<std::string> model_names();

/// Builds the model called `name`. Throws `Error{kInvalidArgument}` that lists the names, and the
/// nearest, if there is none of that name, or if the model refuses an option.
std::shared_ptr<Classifier> make_model(std::string_view name, const ModelOptions& options = {});

}  // namespace brigade::models
