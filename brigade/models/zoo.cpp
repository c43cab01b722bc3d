#include "brigade/models/zoo.h"

#include <map>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/models/mlp.h"
#include "brigade/models/mnist_cnn.h"

namespace brigade::models {
namespace {

using Make = std::shared_ptr<Classifier> (*)(const ModelOptions&);

std::shared_ptr<Classifier> make_mlp(const ModelOptions& options) {
  return std::make_shared<Mlp>(
      MlpOptions{.inputs = options.inputs, .hidden = options.hidden, .classes = options.classes});
}

std::shared_ptr<Classifier> make_mnist_cnn(const ModelOptions& options) {
  if (options.inputs != 784) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat("model mnist_cnn takes 28x28 images, 784 values an example; the data "
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

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : table()) names.push_back(name);
  return names;
}

std::shared_ptr<Classifier> make_model(std::string_view name, const ModelOptions& options) {
  const auto found = table().find(name);
  if (found != table().end()) return found->second(options);
  const auto names = model_names();
  const auto nearest = base::nearest(name, names);
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("no model is called '", name, "'",
                            nearest ? base::str_cat("; did you mean '", *nearest, "'?") : "",
                            " Models: ", base::join(names, ", ")));
}

}  // namespace brigade::models
