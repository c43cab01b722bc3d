#pragma once

#include <memory>
#include <string>

#include "brigade/distribute/replicated.h"
#include "brigade/distribute/strategy.h"
#include "brigade/models/registry.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// The flags that choose a model.
struct ModelFlags {
  std::string model = "mnist_cnn";
  std::string hidden = "64,64,64";
  double dropout = 0.0;

  void add_to(CLI::App& app);
  /// The options of the model, checked. Throws UsageError.
  models::ModelOptions options() const;
  /// The model, once per replica.
  distribute::Replicated<models::Classifier> create(distribute::Strategy& strategy) const;
};

}  // namespace brigade::command
