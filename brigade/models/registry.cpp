#include "brigade/models/registry.h"

#include <algorithm>
#include <array>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/base/unknown_name.h"
#include "brigade/models/mlp.h"
#include "brigade/models/mnist_cnn.h"
#include "brigade/models/slim_net.h"

namespace brigade::models {
namespace {

std::shared_ptr<Classifier> make_mlp(const ModelOptions& options) {
  return std::make_shared<Mlp>(
      MlpOptions{.inputs = options.inputs, .hidden = options.hidden, .classes = options.classes});
}

std::shared_ptr<Classifier> make_mnist_cnn(const ModelOptions& options) {
  if (options.inputs != 784) {
    throw Error(
        ErrorCode::kInvalidArgument,
        base::str_cat("model mnist_cnn takes 28x28 images, 784 values per example; the data "
                      "has ",
                      options.inputs));
  }
  return std::make_shared<MnistCnn>(
      MnistCnnOptions{.classes = options.classes, .dropout = options.dropout});
}

ModelFunction make_slim_net(const ModelOptions& options) {
  return [classes = options.classes](const at::Tensor& images, variables::Mode) {
    return slim_net(images, {.classes = classes});
  };
}

/// A model is either a module or a function of layers.
struct ModelEntry {
  std::string_view name;
  std::shared_ptr<Classifier> (*module)(const ModelOptions&) = nullptr;
  ModelFunction (*function)(const ModelOptions&) = nullptr;
};

constexpr std::array kModels = {ModelEntry{.name = "mlp", .module = make_mlp},
                                ModelEntry{.name = "mnist_cnn", .module = make_mnist_cnn},
                                ModelEntry{.name = "slim_net", .function = make_slim_net}};

/// Throws for an unknown name.
const ModelEntry& entry_of(std::string_view name) {
  for (const ModelEntry& entry : kModels) {
    if (entry.name == name) return entry;
  }
  const auto names = model_names();
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("no model is called '", name, "'", base::did_you_mean(name, names),
                            " Models: ", base::join(names, ", ")));
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

std::shared_ptr<Classifier> make_model(std::string_view name, const ModelOptions& options) {
  const ModelEntry& entry = entry_of(name);
  if (entry.module != nullptr) return entry.module(options);
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("model ", name,
                            " is a function of layers: use make_model_function and "
                            "Strategy::create"));
}

ModelFunction make_model_function(std::string_view name, const ModelOptions& options) {
  const ModelEntry& entry = entry_of(name);
  if (entry.function != nullptr) return entry.function(options);
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("model ", name, " is a module: use make_model and Strategy::create"));
}

}  // namespace brigade::models
