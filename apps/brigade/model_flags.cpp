#include "apps/brigade/model_flags.h"

#include <ATen/ops/zeros.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "apps/brigade/exit_code.h"
#include "apps/brigade/fine_tuning_flags.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/distribute/function_module.h"
#include "brigade/optim/adagrad.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"

namespace brigade::command {
namespace {

constexpr const char* kInception = "inception_v3";
constexpr double kInceptionDropout = 0.2;
constexpr double kAuxWeight = 0.4;

bool has_dropout(const std::string& model) {
  return model == "mnist_cnn" || model == kInception || model.starts_with("resnet");
}

std::vector<std::int64_t> parse_widths(const std::string& text) {
  std::vector<std::int64_t> widths;
  for (const std::string& part : base::split(text, ',')) {
    const auto width = base::parse_int(base::trim(part));
    if (!width || *width < 1) {
      throw UsageError(base::str_cat("--hidden is ", base::quoted(text),
                                     "; give widths of 1 or more, for example 64,64,64"));
    }
    widths.push_back(*width);
  }
  return widths;
}

// The flags that are set replace the rule's defaults.
template <class Rule>
optim::UpdateRulePtr with_rates(Rule rule, const OptimizerFlags& flags) {
  if (flags.learning_rate) rule.learning_rate = *flags.learning_rate;
  if (flags.weight_decay) rule.weight_decay = *flags.weight_decay;
  return rule.rule();
}

optim::UpdateRulePtr chosen_rule(const OptimizerFlags& flags) {
  if (flags.optimizer == "sgd") {
    return with_rates(optim::Sgd{.momentum = flags.momentum.value_or(0.0)}, flags);
  }
  if (flags.optimizer == "adamw") return with_rates(optim::AdamW{}, flags);
  if (flags.optimizer == "adagrad") return with_rates(optim::Adagrad{}, flags);
  return with_rates(optim::Adam{}, flags);
}

using FunctionModel = distribute::Replicated<distribute::FunctionModule<models::ModelFunction>>;

/// One replica's view of the function model.
class FunctionClassifier final : public models::Classifier {
 public:
  FunctionClassifier(FunctionModel model, int replica)
      : Classifier("FunctionClassifier"), model_(std::move(model)), replica_(replica) {}

  at::Tensor forward(const at::Tensor& batch) override {
    return model_.replica(replica_).forward(batch);
  }
  void train(bool on) override {
    Module::train(on);
    on ? model_.replica(replica_).train() : model_.replica(replica_).eval();
  }

 private:
  FunctionModel model_;
  int replica_;
};

}  // namespace

void ModelFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Model");
  const std::string names = base::join(models::model_names(), ", ");
  group.add("--model", model, base::str_cat("The model: ", names));
  group.add("--hidden", hidden, "Widths of the hidden layers (mlp)");
  group.add("--dropout", dropout,
            "Dropout rate in training: of the hidden layer (mnist_cnn, default 0), or before the "
            "logits (inception_v3, default 0.2; ResNets, default 0)");
  group.add("--aux-weight", aux_weight,
            "Weight of the loss of auxiliary logits in training; 0: the model has none "
            "(inception_v3, default 0.4)");
}

models::ModelOptions ModelFlags::options(const ImageInput& input) const {
  check_choice("model", model, models::model_names());
  if (dropout && !(*dropout >= 0.0 && *dropout < 1.0)) {
    throw UsageError(base::str_cat("--dropout is ", *dropout, "; it must be in [0, 1)"));
  }
  if (dropout.value_or(0.0) > 0.0 && !has_dropout(model)) {
    throw UsageError(base::str_cat("model ", model, " has no dropout; leave out --dropout"));
  }
  if (aux_weight && model != kInception) {
    throw UsageError(
        base::str_cat("model ", model, " has no auxiliary logits; leave out --aux-weight"));
  }
  if (aux_weight && !(*aux_weight >= 0.0 && *aux_weight <= 1e6))
    throw UsageError(base::str_cat("--aux-weight is ", *aux_weight, "; it must be 0 or more"));
  return {.inputs = input.shape[0] * input.shape[1] * input.shape[2],
          .classes = input.classes,
          .hidden = parse_widths(hidden),
          .dropout = dropout,
          .image_shape = {input.shape.begin(), input.shape.end()},
          .auxiliary_logits = weight_of_auxiliary_loss() > 0.0};
}

double ModelFlags::weight_of_auxiliary_loss() const {
  return aux_weight.value_or(model == kInception ? kAuxWeight : 0.0);
}

void ModelFlags::describe(Json& configuration) const {
  configuration["model"] = model;
  configuration["hidden"] = model == "mlp" ? Json(parse_widths(hidden)) : Json(nullptr);
  configuration["dropout"] = dropout.value_or(model == kInception ? kInceptionDropout : 0.0);
  configuration["aux_weight"] = weight_of_auxiliary_loss();
}

distribute::Replicated<models::Classifier> ModelFlags::create(distribute::Strategy& strategy,
                                                              const ImageInput& input) const {
  const models::ModelOptions chosen = options(input);
  const auto& [channels, height, width] = input.shape;
  return set_up([&] {
    if (models::is_model_function(model)) {
      return build_classifier(strategy, models::make_model_function(model, chosen),
                              at::zeros({1, channels, height, width}));
    }
    return strategy.create([&] { return models::make_model(model, chosen); });
  });
}

void OptimizerFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Optimizer");
  group.add("--optimizer", optimizer, "adagrad, adam, adamw, sgd");
  group.add("--learning-rate", learning_rate, "Default: adam and adamw 0.001, others 0.01");
  group.add("--momentum", momentum, "sgd only; default 0");
  group.add("--weight-decay", weight_decay, "Default: adamw 0.01, others 0");
  group
      .add("--no-decay", no_decay,
           "Variables without weight decay, such as \"*/gamma,*/beta,*/biases\": names separated "
           "by commas, * for any characters")
      ->option_text("NAMES");
}

optim::UpdateRulePtr OptimizerFlags::rule() const {
  check_choice("optimizer", optimizer, {"adagrad", "adam", "adamw", "sgd"});
  if (momentum && optimizer != "sgd") {
    throw UsageError(base::str_cat("--momentum is for sgd; ", optimizer,
                                   optimizer == "adagrad" ? " has none" : " has its own"));
  }
  return set_up([&] { return chosen_rule(*this); });
}

std::vector<optim::ParameterGroup> OptimizerFlags::groups() const {
  if (!no_decay) return {};
  return {{.names = parse_patterns("--no-decay", *no_decay), .weight_decay = 0.0}};
}

distribute::Replicated<models::Classifier> build_classifier(distribute::Strategy& strategy,
                                                            const models::ModelFunction& function,
                                                            const at::Tensor& example) {
  const FunctionModel model =
      strategy.create(function, example.to(strategy.devices().front().torch_device));
  std::vector<std::shared_ptr<models::Classifier>> replicas;
  for (int replica = 0; replica < strategy.num_local_replicas(); ++replica)
    replicas.push_back(std::make_shared<FunctionClassifier>(model, replica));
  return {std::move(replicas), model.created()};
}

}  // namespace brigade::command
