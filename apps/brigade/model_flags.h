#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/brigade/data_flags.h"
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
  std::optional<double> dropout;
  std::optional<double> aux_weight;
  std::optional<std::string> original;
  std::optional<std::string> memory_format;

  void add_to(CLI::App& app);
  /// 0 for a model without auxiliary logits.
  double weight_of_auxiliary_loss() const;
  /// For a model that is not trained: it has no auxiliary logits, unless a flag asks for them.
  void exclude_auxiliary_logits();
  /// Makes the model the original that weights are of, unless a flag says which.
  void set_original(std::optional<models::Original> found);
  /// Adds the keys of the flags to a configuration.
  void describe(Json& configuration) const;
  /// The options of the model, checked. Throws UsageError.
  models::ModelOptions options(const ImageInput& input = {}) const;
  /// The layers at which a pipeline can cut the model for these images.
  std::vector<std::string> layers(const ImageInput& input) const;
  /// The model for these images, once per replica. Throws UsageError if it does not take them.
  distribute::Replicated<models::Classifier> create(distribute::Strategy& strategy,
                                                    const ImageInput& input) const;
  /// The same with these options.
  distribute::Replicated<models::Classifier> create(distribute::Strategy& strategy,
                                                    const ImageInput& input,
                                                    const models::ModelOptions& options) const;

 private:
  /// The function of a model that is one, in the memory format.
  models::ClassifierFunction function(const models::ModelOptions& options) const;
};

/// The flags that choose the optimizer.
struct OptimizerFlags {
  std::string optimizer = "adam";
  std::optional<double> learning_rate;
  std::optional<double> momentum;
  std::optional<double> weight_decay;
  std::optional<std::string> no_decay;
  std::optional<double> beta1;
  std::optional<double> beta2;
  std::optional<double> epsilon;
  std::optional<double> rmsprop_decay;
  bool rmsprop_centered = false;
  std::optional<double> trust_coefficient;

  void add_to(CLI::App& app);
  /// The rule that the flags describe. Throws UsageError.
  optim::UpdateRulePtr rule() const;
  /// The groups of variables with separate rates: those without weight decay, and, for lars,
  /// variables of at most one dimension (biases, scales of norms), which have neither layer
  /// adaptation nor weight decay.
  std::vector<optim::ParameterGroup> groups(std::span<const variables::Variable> variables) const;
};

/// A model that is written as a function, built by `strategy` for images of `example`'s shape, as
/// the classifier that the commands train.
distribute::Replicated<models::Classifier> build_classifier(
    distribute::Strategy& strategy, const models::ClassifierFunction& function,
    const at::Tensor& example);

}  // namespace brigade::command
