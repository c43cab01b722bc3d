#include "brigade/models/registry.h"

#include <map>
#include <set>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/models/mlp.h"
#include "brigade/models/mnist_cnn.h"
#include "brigade/models/slim_net.h"

namespace brigade::models {
namespace {

using Make = std::shared_ptr<Classifier> (*)(const ModelOptions&);

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

const std::map<std::string, Make, std::less<>>& table() {
  static const std::map<std::string, Make, std::less<>> models = {
      {"mlp", make_mlp},
      {"mnist_cnn", make_mnist_cnn},
  };
  return models;
}

using MakeFunction = ModelFunction (*)(const ModelOptions&);

ModelFunction make_slim_net(const ModelOptions& options) {
  return [classes = options.classes](const at::Tensor& images, variables::Mode) {
    return slim_net(images, {.classes = classes});
  };
}

const std::map<std::string, MakeFunction, std::less<>>& functions() {
  static const std::map<std::string, MakeFunction, std::less<>> models = {
      {"slim_net", make_slim_net},
  };
  return models;
}

[[noreturn]] void refuse_name(std::string_view name) {
  const auto names = model_names();
  const auto nearest = base::nearest(name, names);
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("no model is called '", name, "'",
                            nearest ? base::str_cat("; did you mean '", *nearest, "'?") : "",
                            " Models: ", base::join(names, ", ")));
}

}  // namespace

std::vector<std::string> model_names() {
  std::set<std::string> names;
  for (const auto& [name, make] : table()) names.insert(name);
  for (const auto& [name, make] : functions()) names.insert(name);
  return {names.begin(), names.end()};
}

bool is_model_function(std::string_view name) {
  return functions().contains(name);
}

std::shared_ptr<Classifier> make_model(std::string_view name, const ModelOptions& options) {
  const auto found = table().find(name);
  if (found != table().end()) return found->second(options);
  if (!is_model_function(name)) refuse_name(name);
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("model ", name,
                            " is a function of layers: use make_model_function and "
                            "Strategy::create"));
}

ModelFunction make_model_function(std::string_view name, const ModelOptions& options) {
  const auto found = functions().find(name);
  if (found != functions().end()) return found->second(options);
  if (!table().contains(name)) refuse_name(name);
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("model ", name, " is a module: use make_model and Strategy::create"));
}

}  // namespace brigade::models
