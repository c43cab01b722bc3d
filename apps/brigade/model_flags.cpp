#include "apps/brigade/model_flags.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "apps/brigade/exit_code.h"
#include "apps/brigade/fine_tuning_flags.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/comm/announced_layers.h"
#include "brigade/distribute/function_module.h"
#include "brigade/layers/arg_scope.h"
#include "brigade/layers/conv2d.h"
#include "brigade/optim/adagrad.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/lars.h"
#include "brigade/optim/rms_prop.h"
#include "brigade/optim/sgd.h"

namespace brigade::command {
namespace {

constexpr const char* kInception = "inception_v3";
constexpr double kInceptionDropout = 0.2;
constexpr double kAuxWeight = 0.4;

bool has_dropout(const std::string& model) {
  return model == "mnist_cnn" || model == kInception || model.starts_with("resnet");
}

/// By number.
const std::vector<std::string>& originals() {
  static const std::vector<std::string> names = {"tf_slim", "torchvision"};
  return names;
}

std::vector<std::int64_t> parse_widths(const std::string& text) {
  std::vector<std::int64_t> widths;
  for (const std::string& part : base::split(text, ',')) {
    const auto width = base::parse_int(base::trim(part));
    if (!width || *width < 1) {
      throw UsageError("--hidden is ", base::quoted(text),
                       "; give widths of 1 or more, for example 64,64,64");
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
  if constexpr (requires { rule.momentum; }) {
    if (flags.momentum) rule.momentum = *flags.momentum;
  }
  if constexpr (requires { rule.beta1; }) {
    if (flags.beta1) rule.beta1 = *flags.beta1;
    if (flags.beta2) rule.beta2 = *flags.beta2;
  }
  if constexpr (requires { rule.epsilon; }) {
    if (flags.epsilon) rule.epsilon = *flags.epsilon;
  }
  return rule.rule();
}

std::vector<std::string> optimizer_choices() {
  return {"adagrad", "adam", "adamw", "lars", "rmsprop", "sgd"};
}

void check_flag_is_for(std::string_view flag, bool is_given, const std::string& optimizer,
                       const std::vector<std::string>& optimizers) {
  if (!is_given || std::find(optimizers.begin(), optimizers.end(), optimizer) != optimizers.end())
    return;
  throw UsageError(flag, " is for ", base::join(optimizers, ", "), "; ", optimizer,
                   " does not take it");
}

optim::RmsProp rmsprop_of(const OptimizerFlags& flags) {
  optim::RmsProp rule{.centered = flags.rmsprop_centered};
  if (flags.rmsprop_decay) rule.decay = *flags.rmsprop_decay;
  return rule;
}

optim::Lars lars_of(const OptimizerFlags& flags) {
  optim::Lars rule;
  if (flags.trust_coefficient) rule.trust_coefficient = *flags.trust_coefficient;
  return rule;
}

optim::UpdateRulePtr chosen_rule(const OptimizerFlags& flags) {
  if (flags.optimizer == "sgd") return with_rates(optim::Sgd{}, flags);
  if (flags.optimizer == "rmsprop") return with_rates(rmsprop_of(flags), flags);
  if (flags.optimizer == "lars") return with_rates(lars_of(flags), flags);
  if (flags.optimizer == "adamw") return with_rates(optim::AdamW{}, flags);
  if (flags.optimizer == "adagrad") return with_rates(optim::Adagrad{}, flags);
  return with_rates(optim::Adam{}, flags);
}

using FunctionModel =
    distribute::Replicated<distribute::FunctionModule<models::ClassifierFunction>>;

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
  group.add(
      "--original", original,
      base::str_cat("Which of the originals the model equals: ", base::join(originals(), ", "),
                    " (inception_v3; default that of the weights of --init-from, or tf_slim)"));
  group.add("--memory-format", memory_format,
            "The order of images and kernels in memory: contiguous, channels_last (models of "
            "convolutions, but not mnist_cnn; changes the last bits of the weights)");
}

void ModelFlags::exclude_auxiliary_logits() {
  if (!aux_weight && weight_of_auxiliary_loss() > 0.0) aux_weight = 0.0;
}

void ModelFlags::set_original(std::optional<models::Original> found) {
  if (found && !original) original = originals().at(static_cast<std::size_t>(*found));
}

models::ModelOptions ModelFlags::options(const ImageInput& input) const {
  check_choice("model", model, models::model_names());
  if (dropout && !(*dropout >= 0.0 && *dropout < 1.0)) {
    throw UsageError("--dropout is ", *dropout, "; it must be in [0, 1)");
  }
  if (dropout.value_or(0.0) > 0.0 && !has_dropout(model)) {
    throw UsageError("model ", model, " has no dropout; leave out --dropout");
  }
  if (aux_weight && model != kInception) {
    throw UsageError("model ", model, " has no auxiliary logits; leave out --aux-weight");
  }
  if (aux_weight && !(*aux_weight >= 0.0 && *aux_weight <= 1e6))
    throw UsageError("--aux-weight is ", *aux_weight, "; it must be 0 or more");
  if (original && model != kInception)
    throw UsageError("model ", model, " has one original; leave out --original");
  const std::string of = original.value_or(originals().front());
  check_choice("original", of, originals());
  if (memory_format) {
    check_choice("memory format", *memory_format, {"channels_last", "contiguous"});
    if (!models::is_model_function(model)) {
      throw UsageError("model ", model, " has a memory format of its own; leave ",
                       "out --memory-format");
    }
  }
  return {.inputs = input.shape[0] * input.shape[1] * input.shape[2],
          .classes = input.classes,
          .hidden = parse_widths(hidden),
          .dropout = dropout,
          .image_shape = {input.shape.begin(), input.shape.end()},
          .original = of == originals().front() ? models::Original::kTfSlim
                                                : models::Original::kTorchvision,
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
  configuration["original"] =
      model == kInception ? Json(original.value_or(originals().front())) : Json(nullptr);
  configuration["memory_format"] =
      models::is_model_function(model) ? Json(memory_format.value_or("contiguous")) : Json(nullptr);
}

models::ClassifierFunction ModelFlags::function(const models::ModelOptions& options) const {
  auto plain = models::make_model_function(model, options);
  if (memory_format != "channels_last") return plain;
  return [plain = std::move(plain)](const at::Tensor& images, variables::Mode mode) {
    const auto format =
        layers::arg_scope<layers::conv2d>({.memory_format = at::MemoryFormat::ChannelsLast});
    return plain(images, mode);
  };
}

std::vector<std::string> ModelFlags::layers(const ImageInput& input) const {
  const auto& [channels, height, width] = input.shape;
  return set_up([&] {
    const at::NoGradGuard no_gradients;
    const auto made = models::make_model(model, options(input));
    made->eval();
    const at::Tensor none = at::zeros({0, channels, height, width});
    return comm::announced_layers([&] { made->forward(none); });
  });
}

distribute::Replicated<models::Classifier> ModelFlags::create(distribute::Strategy& strategy,
                                                              const ImageInput& input) const {
  return create(strategy, input, options(input));
}

distribute::Replicated<models::Classifier> ModelFlags::create(
    distribute::Strategy& strategy, const ImageInput& input,
    const models::ModelOptions& chosen) const {
  const auto& [channels, height, width] = input.shape;
  return set_up([&] {
    if (models::is_model_function(model)) {
      return build_classifier(strategy, function(chosen), at::zeros({1, channels, height, width}));
    }
    return strategy.create([&] { return models::make_model(model, chosen); });
  });
}

void OptimizerFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Optimizer");
  group.add("--optimizer", optimizer, base::join(optimizer_choices(), ", "));
  group.add("--learning-rate", learning_rate,
            "Default: adam, adamw and rmsprop 0.001, lars 1, others 0.01");
  group.add("--momentum", momentum, "lars, rmsprop and sgd; default 0, lars 0.9");
  group.add("--weight-decay", weight_decay, "Default: adamw 0.01, lars 0.0001, others 0");
  group.add("--beta1", beta1, "adam and adamw: the momentum; default 0.9");
  group.add("--beta2", beta2,
            "adam and adamw: the fraction of the mean of squares that a step keeps; default 0.999");
  group.add("--epsilon", epsilon,
            "All but sgd; default: adam and adamw 1e-8, adagrad and rmsprop 1e-10, lars 0");
  group.add("--rmsprop-decay", rmsprop_decay,
            "The fraction of the mean of squares that a step keeps; default 0.9");
  group.add_switch("--rmsprop-centered", rmsprop_centered,
                   "Divide by the gradients' deviation, not by the root of their mean square");
  group.add("--trust-coefficient", trust_coefficient,
            "lars: how far a step changes a variable, relative to its norm; default 0.001");
  group
      .add("--no-decay", no_decay,
           "Variables without weight decay, such as \"*/gamma,*/beta,*/biases\": names separated "
           "by commas, * for any characters")
      ->option_text("NAMES");
}

optim::UpdateRulePtr OptimizerFlags::rule() const {
  check_choice("optimizer", optimizer, optimizer_choices());
  check_flag_is_for("--momentum", momentum.has_value(), optimizer, {"lars", "rmsprop", "sgd"});
  check_flag_is_for("--beta1", beta1.has_value(), optimizer, {"adam", "adamw"});
  check_flag_is_for("--beta2", beta2.has_value(), optimizer, {"adam", "adamw"});
  check_flag_is_for("--epsilon", epsilon.has_value(), optimizer,
                    {"adagrad", "adam", "adamw", "lars", "rmsprop"});
  check_flag_is_for("--rmsprop-decay", rmsprop_decay.has_value(), optimizer, {"rmsprop"});
  check_flag_is_for("--rmsprop-centered", rmsprop_centered, optimizer, {"rmsprop"});
  check_flag_is_for("--trust-coefficient", trust_coefficient.has_value(), optimizer, {"lars"});
  return set_up([&] { return chosen_rule(*this); });
}

/// Of at most one dimension: biases, and the scales and offsets of norms.
optim::ParameterGroup vectors_among(std::span<const variables::Variable> variables) {
  optim::ParameterGroup vectors{.weight_decay = 0.0, .layer_adaptation = false};
  for (const variables::Variable& variable : variables)
    if (variable.trainable() && variable.shape().size() <= 1)
      vectors.names.push_back(variable.name());
  return vectors;
}

std::vector<optim::ParameterGroup> OptimizerFlags::groups(
    std::span<const variables::Variable> variables) const {
  std::vector<optim::ParameterGroup> groups;
  if (optimizer == "lars") {
    optim::ParameterGroup vectors = vectors_among(variables);
    if (!vectors.names.empty()) groups.push_back(std::move(vectors));
  }
  if (no_decay)
    groups.push_back({.names = parse_patterns("--no-decay", *no_decay), .weight_decay = 0.0});
  return groups;
}

distribute::Replicated<models::Classifier> build_classifier(
    distribute::Strategy& strategy, const models::ClassifierFunction& function,
    const at::Tensor& example) {
  const FunctionModel model =
      strategy.create(function, example.to(strategy.devices().front().torch_device));
  std::vector<std::shared_ptr<models::Classifier>> replicas;
  for (int replica = 0; replica < strategy.num_local_replicas(); ++replica)
    replicas.push_back(std::make_shared<FunctionClassifier>(model, replica));
  return {std::move(replicas), model.created()};
}

}  // namespace brigade::command
