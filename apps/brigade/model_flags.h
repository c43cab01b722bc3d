#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/distribute/replicated.h"
#include "brigade/distribute/strategy.h"
#include "brigade/models/classifier.h"
#include "brigade/models/registry.h"
#include "brigade/optim/parameter_group.h"
#include "brigade/optim/update_rule.h"
#include "brigade/variables/variable.h"

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

/// The flags that choose the optimizer.
struct OptimizerFlags {
  std::string optimizer = "adam";
  std::optional<double> learning_rate;
  std::optional<double> momentum;
  std::optional<double> weight_decay;
  std::optional<double> epsilon;
  std::optional<double> rmsprop_decay;
  bool rmsprop_centered = false;
  std::optional<double> trust_coefficient;

  void add_to(CLI::App& app);
  /// The rule that the flags describe. Throws UsageError.
  optim::UpdateRulePtr rule() const;
  /// The groups that the rule's updates of these variables need: for lars, variables of at most one
  /// dimension (biases, scales of norms) have neither layer adaptation nor weight decay.
  std::vector<optim::ParameterGroup> groups(std::span<const variables::Variable> variables) const;
};

/// A model that is written as a function, built by `strategy` for images of `example`'s shape, as
/// the classifier that the commands train.
distribute::Replicated<models::Classifier> build_classifier(distribute::Strategy& strategy,
                                                            const models::ModelFunction& function,
                                                            const at::Tensor& example);

}  // namespace brigade::command
