#include "brigade/train/model/trainer.h"

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/layers/v1/tf_losses.h"
#include "brigade/metrics/make_metric.h"
#include "brigade/train/model/custom_train_step.h"
#include "brigade/variables/graph.h"

namespace brigade::train {
namespace {

using base::str_cat;
using input::NamedTensors;

/// The losses that layers and the model add in this pass: regularization and `add_loss`. An
/// undefined tensor if there are none.
at::Tensor added_losses() {
  at::Tensor sum;
  const auto add = [&sum](const std::vector<at::Tensor>& losses) {
    for (const at::Tensor& loss : losses) sum = sum.defined() ? sum + loss : loss;
  };
  add(layers::v1::losses::get_regularization_losses());
  add(variables::require_graph("Model::fit").losses());
  return sum;
}

/// Adds one value per example, or their mean.
void add_values(const metrics::Mean& mean, const at::Tensor& values, std::int64_t examples) {
  if (values.dim() == 0) {
    mean.update_state(values, at::scalar_tensor(examples, values.options().dtype(at::kDouble)));
  } else {
    mean.update_state(values);
  }
}

/// One value for each name, which may have different types.
at::Tensor stacked_means(const std::vector<at::Tensor>& values, at::ScalarType dtype) {
  std::vector<at::Tensor> means;
  for (const at::Tensor& each : values) means.push_back(each.detach().mean(dtype));
  return at::stack(means);
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_returned(const NamedTensors& returned, const std::vector<std::string>& expected,
                    std::int64_t examples) {
  bool fits = returned.names().size() == expected.size();
  for (const std::string& name : expected) fits = fits && returned.contains(name);
  check_argument(fits, "The train_step returned the values ", base::listed(returned.names(), ", "),
                 "; it must return those of its logs that are no metrics of compile: ",
                 base::listed(expected, ", "), ".");
  for (const std::string& name : expected) {
    const at::Tensor& value = returned[name];
    check_argument(value.defined() && (value.dim() == 0 || value.size(0) == examples),
                   "The train_step returned ", base::quoted(name), " ",
                   value.defined() ? str_cat("of shape ", value.sizes()) : std::string("undefined"),
                   " for ", examples,
                   " examples: return one value per example, or their mean as a scalar.");
  }
}

void add_metrics(std::vector<internal::NamedMetric>& metrics, const std::string& output,
                 const std::vector<MetricChoice>& choices, bool is_weighted) {
  const auto is_new = [&metrics](const std::string& name) {
    return std::ranges::none_of(metrics, [&](const auto& each) { return each.name == name; });
  };
  const std::string prefix = output.empty() ? "" : str_cat(output, "_");
  for (const MetricChoice& choice : choices) {
    std::string name = str_cat(prefix, choice.name());
    if (is_weighted && !is_new(name)) name = str_cat(prefix, "weighted_", choice.name());
    check_argument(is_new(name) && name != "loss", "Two metrics would have the name '", name, "'.");
    check_argument(
        !choice.metric() ||
            std::ranges::none_of(metrics,
                                 [&](const auto& each) { return each.metric == choice.metric(); }),
        "The metric object '", choice.name(), "' is given twice: make one for each use.");
    auto metric =
        choice.metric()
            ? choice.metric()
            : std::shared_ptr<const metrics::PredictionMetric>(metrics::make_metric(choice.name()));
    metrics.push_back({.name = std::move(name),
                       .output = output,
                       .is_weighted = is_weighted,
                       .metric = std::move(metric)});
  }
}

void check_names(const internal::OutputLosses& losses,
                 const std::vector<internal::NamedMetric>& metrics) {
  const std::vector<std::string> names = losses.names();
  for (const internal::NamedMetric& each : metrics)
    check_argument(!contains(names, each.name), "A metric would have the name '", each.name,
                   "' of a loss.");
}

void check(const CustomTrainStep& step) {
  check_argument(static_cast<bool>(step.function()), "compile: train_step has no function.");
  check_argument(!step.logs().empty(), "compile: train_step has no names for the logs.");
  for (auto name = step.logs().begin(); name != step.logs().end(); ++name) {
    check_argument(!name->empty() && std::find(step.logs().begin(), name, *name) == name,
                   "compile: the name ", base::quoted(*name),
                   " of train_step's logs is empty or occurs twice.");
  }
}

}  // namespace

namespace internal {

std::vector<NamedMetric> make_metrics(distribute::Strategy& strategy,
                                      const CompileOptions& options) {
  const auto scope = strategy.scope();
  std::vector<NamedMetric> metrics;
  add_metrics(metrics, "", options.metrics, /*is_weighted=*/false);
  for (const auto& [output, choices] : options.output_metrics)
    add_metrics(metrics, output, choices, /*is_weighted=*/false);
  add_metrics(metrics, "", options.weighted_metrics, /*is_weighted=*/true);
  for (const auto& [output, choices] : options.output_weighted_metrics)
    add_metrics(metrics, output, choices, /*is_weighted=*/true);
  return metrics;
}

TrainerParts parts_of(distribute::Strategy& strategy, const CompileOptions& options) {
  OutputLosses losses(options);
  if (options.train_step) check(*options.train_step);
  std::vector<NamedMetric> metrics = make_metrics(strategy, options);
  check_names(losses, metrics);
  return {.losses = std::move(losses),
          .labels = OutputLabels(options.labels),
          .metrics = std::move(metrics),
          .step = options.train_step};
}

Trainer::Trainer(distribute::Strategy& strategy, const Network& network, TrainerParts parts,
                 distribute::Optimizer optimizer)
    : strategy_(strategy),
      network_(network),
      parts_(std::move(parts)),
      optimizer_(std::move(optimizer)) {
  const auto scope = strategy.scope();
  add_mean("loss");
  for (const std::string& name : parts_.losses.names()) add_mean(name);
  if (parts_.step) {
    for (const std::string& name : parts_.step->logs())
      if (find_metric(name) == nullptr) step_values_.push_back(name);
    for (const std::string& name : step_values_) add_mean(name);
  } else {
    for (const NamedMean& each : means_) step_values_.push_back(each.name);
  }
  for (const NamedMean& each : means_) all_.push_back(each.mean.get());
  for (const NamedMetric& each : parts_.metrics) all_.push_back(each.metric.get());
}

void Trainer::add_mean(const std::string& name) {
  const bool exists =
      std::ranges::any_of(means_, [&](const NamedMean& each) { return each.name == name; });
  if (!exists) means_.push_back({.name = name, .mean = std::make_unique<metrics::Mean>(name)});
}

const metrics::Mean& Trainer::mean(std::string_view name) const {
  return *std::ranges::find(means_, name, &NamedMean::name)->mean;
}

const NamedMetric* Trainer::find_metric(std::string_view name) const {
  const auto found = std::ranges::find(parts_.metrics, name, &NamedMetric::name);
  return found == parts_.metrics.end() ? nullptr : &*found;
}

OutputLosses::Values Trainer::losses_of(const ModelBatch& replica_batch,
                                        const NamedTensors& outputs) const {
  OutputLosses::Values losses = parts_.losses(replica_batch, outputs, parts_.labels);
  const at::Tensor added = added_losses();
  if (added.defined()) losses.total = losses.total + added;
  return losses;
}

at::Tensor Trainer::loss_of(const ModelBatch& replica_batch, const NamedTensors& outputs) const {
  check_state(!parts_.losses.empty(),
              "compute_loss: compile was given no loss. Set CompileOptions::loss or losses.");
  return losses_of(replica_batch, outputs).total;
}

void Trainer::update_metrics(const ModelBatch& replica_batch, const NamedTensors& outputs) const {
  if (replica_batch.examples() == 0) return;
  for (const NamedMetric& each : parts_.metrics) {
    each.metric->update_state(parts_.labels.label(replica_batch, outputs, each.output),
                              OutputLabels::output(outputs, each.output).detach(),
                              each.is_weighted
                                  ? OutputLabels::weights(replica_batch, outputs, each.output)
                                  : std::nullopt);
  }
}

void Trainer::record(const ModelBatch& replica_batch, const NamedTensors& outputs,
                     const OutputLosses::Values& losses) const {
  const std::int64_t examples = replica_batch.examples();
  if (examples == 0) return;
  add_values(*means_[0].mean, losses.total.detach(), examples);
  for (std::size_t i = 0; i < losses.parts.size(); ++i)
    add_values(*means_[i + 1].mean, losses.parts[i].detach(), examples);
  update_metrics(replica_batch, outputs);
}

distribute::StepLoss Trainer::usual_step(const ModelBatch& replica_batch) const {
  const NamedTensors outputs = network_.forward(replica_batch.inputs);
  const OutputLosses::Values losses = losses_of(replica_batch, outputs);
  at::Tensor report;
  if (!losses.parts.empty()) {
    std::vector<at::Tensor> values = {losses.total};
    values.insert(values.end(), losses.parts.begin(), losses.parts.end());
    report = stacked_means(values, comm::accumulation_dtype(losses.total.scalar_type()));
  }
  auto loss = optimizer_.minimize(losses.total, distribute::LossScale::kMeanOverExamples, report);
  record(replica_batch, outputs, losses);
  return loss;
}

at::Tensor Trainer::own_step(distribute::ReplicaContext& replica,
                             const ModelBatch& replica_batch) const {
  TrainStepContext context(replica, *this);
  const NamedTensors returned = parts_.step->function()(context, replica_batch);
  const std::int64_t examples = replica_batch.examples();
  check_returned(returned, step_values_, examples);
  std::vector<at::Tensor> values;
  for (const std::string& name : step_values_) {
    values.push_back(returned[name].detach());
    if (examples > 0) add_values(mean(name), values.back(), examples);
  }
  // Of metrics alone nothing is returned, but the replicas must have a value.
  return values.empty() ? at::scalar_tensor(0.0, at::kDouble) : stacked_means(values, at::kDouble);
}

StepValues Trainer::train(const Batch& batch, const ClassWeights* class_weights) {
  const auto run = [&](const auto& step) {
    return strategy_.run(
        [&](distribute::ReplicaContext& replica, const ModelBatch& given) {
          return class_weights ? step(replica, class_weights->applied_to(given))
                               : step(replica, given);
        },
        batch);
  };
  const at::Tensor means =
      parts_.step
          ? strategy_.reduce_mean_over_examples(
                run([this](auto& replica, const auto& given) { return own_step(replica, given); }))
          : strategy_.reduce_loss(
                run([this](auto&, const auto& given) { return usual_step(given); }));
  if (means.dim() == 0 && step_values_.size() == 1) return {{step_values_[0], means}};
  StepValues values;
  for (std::size_t i = 0; i < step_values_.size(); ++i)
    values.set(step_values_[i], means[static_cast<std::int64_t>(i)]);
  return values;
}

void Trainer::test(const Batch& batch) {
  strategy_.run(
      [this](distribute::ReplicaContext&, const ModelBatch& replica_batch) {
        const NamedTensors outputs = network_.forward(replica_batch.inputs);
        record(replica_batch, outputs, losses_of(replica_batch, outputs));
      },
      batch);
}

Logs Trainer::training_results() const {
  if (!parts_.step) return results();
  Logs logs;
  for (const std::string& name : parts_.step->logs()) {
    const NamedMetric* const metric = find_metric(name);
    logs[name] = metric ? metric->metric->result() : mean(name).result();
  }
  return logs;
}

Logs Trainer::results() const {
  Logs logs = {{"loss", mean("loss").result()}};
  for (const std::string& name : parts_.losses.names()) logs[name] = mean(name).result();
  for (const NamedMetric& each : parts_.metrics) logs[each.name] = each.metric->result();
  return logs;
}

void Trainer::reset() const {
  for (const metrics::Metric* each : all_) each->reset_state();
}

}  // namespace internal
}  // namespace brigade::train
