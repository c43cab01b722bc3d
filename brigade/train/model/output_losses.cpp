#include "brigade/train/model/output_losses.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/metrics/metric_shapes.h"

namespace brigade::train::internal {
namespace {

using base::str_cat;
using input::NamedTensors;

std::string names_of(const NamedTensors& tensors) {
  if (tensors.names().empty()) return "none";
  return base::listed(tensors.names(), ", ", [](const std::string& name) {
    return name.empty() ? std::string("one without a name") : base::quoted(name);
  });
}

std::string described(const std::string& output) {
  return output.empty() ? std::string("the output") : str_cat("output ", base::quoted(output));
}

/// The only one of `tensors`, if it is not that of another output.
const at::Tensor* shared(const NamedTensors& tensors, const NamedTensors& outputs) {
  if (tensors.names().size() != 1) return nullptr;
  const bool is_of_an_output = outputs.names().size() > 1 && outputs.contains(tensors.names()[0]);
  return is_of_an_output ? nullptr : &tensors.tensors()[0];
}

at::Tensor weighted(const at::Tensor& values, const std::optional<at::Tensor>& weights,
                    const std::string& output) {
  if (!weights) return values;
  check_argument(values.dim() > 0, "The loss of ", described(output),
                 " returns the mean of the batch, which sample weights come too late for: return "
                 "one value per example, [N].");
  const at::Tensor each = metrics::internal::weights_like(
      *weights, values, str_cat("The sample weights of ", described(output)));
  return values * each.to(values.scalar_type());
}

/// One value per example, or a scalar.
at::Tensor of_examples(const at::Tensor& values) {
  return values.dim() < 2 ? values : values.flatten(1).mean(1);
}

}  // namespace

OutputLabels::OutputLabels(std::map<std::string, std::string> names) : names_(std::move(names)) {}

const at::Tensor& OutputLabels::output(const NamedTensors& outputs, const std::string& name) {
  if (name.empty() && outputs.tensors().size() == 1) return outputs.tensors()[0];
  check_argument(!name.empty(), "The model has several outputs (", names_of(outputs),
                 "): name the outputs of losses and metrics, .losses = {{\"main\", ...}}, "
                 ".output_metrics = {{\"main\", {\"accuracy\"}}}.");
  check_argument(outputs.contains(name), "The model returned no output ", base::quoted(name),
                 ", for which compile has a loss or metrics. Outputs: ", names_of(outputs), ".");
  return outputs[name];
}

const at::Tensor& OutputLabels::label(const ModelBatch& batch, const NamedTensors& outputs,
                                      const std::string& output) const {
  const auto named = names_.find(output);
  const std::string& name = named == names_.end() ? output : named->second;
  if (batch.labels.contains(name)) return batch.labels[name];
  const at::Tensor* const only = named == names_.end() ? shared(batch.labels, outputs) : nullptr;
  check_argument(only != nullptr, "The data has no label ",
                 name.empty() ? std::string() : base::quoted(name) + " ", "for ", described(output),
                 ". Labels: ", names_of(batch.labels),
                 ". Name the label after the output, or say which it is: CompileOptions::labels.");
  return *only;
}

std::optional<at::Tensor> OutputLabels::weights(const ModelBatch& batch,
                                                const NamedTensors& outputs,
                                                const std::string& output) {
  const NamedTensors& weights = batch.sample_weights;
  if (weights.tensors().empty()) return std::nullopt;
  if (const at::Tensor* const only = shared(weights, outputs)) return *only;
  for (const std::string& name : weights.names())
    check_argument(outputs.contains(name), "The sample weights ", base::quoted(name),
                   " are of no output. Outputs: ", names_of(outputs), ".");
  if (!weights.contains(output)) return std::nullopt;
  return weights[output];
}

OutputLosses::OutputLosses(const CompileOptions& options) {
  check_argument(!options.loss || options.losses.empty(),
                 "compile: set one of loss, for a model with one output, and losses.");
  if (options.loss) terms_.push_back({.output = "", .loss = *options.loss});
  for (const auto& [output, loss] : options.losses) {
    check_argument(!output.empty(), "compile: a loss in losses is of an output without a name.");
    const auto weight = options.loss_weights.find(output);
    terms_.push_back({.output = output,
                      .loss = loss,
                      .weight = weight == options.loss_weights.end() ? 1.0 : weight->second});
  }
  for (const auto& [output, weight] : options.loss_weights) {
    check_argument(options.losses.contains(output), "compile: loss_weights has output ",
                   base::quoted(output), ", which losses does not have.");
    check_argument(std::isfinite(weight), "compile: the loss weight of ", described(output), " is ",
                   weight, " and must be finite.");
  }
}

std::vector<std::string> OutputLosses::names() const {
  std::vector<std::string> names;
  if (has_parts())
    for (const Term& term : terms_) names.push_back(str_cat(term.output, "_loss"));
  return names;
}

OutputLosses::Values OutputLosses::operator()(const ModelBatch& batch, const NamedTensors& outputs,
                                              const OutputLabels& labels) const {
  Values values;
  for (const Term& term : terms_) {
    at::Tensor part = weighted(term.loss(labels.label(batch, outputs, term.output),
                                         OutputLabels::output(outputs, term.output)),
                               OutputLabels::weights(batch, outputs, term.output), term.output);
    if (has_parts()) {
      part = of_examples(part);
      values.parts.push_back(part);
    }
    if (term.weight != 1.0) part = part * term.weight;
    values.total = values.total.defined() ? values.total + part : part;
  }
  return values;
}

}  // namespace brigade::train::internal
