#include "brigade/train/model/model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/worker_group.h"
#include "brigade/metrics/make_metric.h"
#include "brigade/train/model/coordinated_fit.h"
#include "brigade/train/model/evaluate.h"
#include "brigade/train/model/fit_loop.h"
#include "brigade/train/model/local_steps.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {
namespace {

using Batch = internal::EpochIterator::Batch;
using Batching = LabeledData::Batching;

/// The number of examples with which a model is built: few, so that it costs little.
constexpr std::int64_t kExamplesToBuild = 2;

const input::LabeledBatch& first_nonempty_batch(const Batch& batch) {
  for (std::size_t replica = 0; replica < batch.size(); ++replica)
    if (!batch.is_empty(replica)) return batch[replica];
  return batch[0];
}

void check_positive(const char* name, const std::optional<std::int64_t>& value) {
  check_argument(!value || *value > 0,
                 base::str_cat(name, " is ", value.value_or(0), " and must be at least 1."));
}

void check(const FitOptions& options) {
  check_argument(
      options.initial_epoch >= 0 && options.epochs >= options.initial_epoch,
      base::str_cat("epochs is ", options.epochs, " and initial_epoch is ", options.initial_epoch,
                    ": epochs is the end of the range of epochs, not their number."));
  check_positive("steps_per_epoch", options.steps_per_epoch);
  check_positive("validation_steps", options.validation_steps);
  check_positive("validation_freq", options.validation_freq);
  check_argument(options.validation_split == 0.0 || !options.validation_data,
                 "Set one of validation_data and validation_split.");
  for (const CallbackPtr& callback : options.callbacks)
    check_argument(static_cast<bool>(callback), "A callback is null.");
}

/// Of tensors.
std::optional<std::int64_t> validation_batch_size(const FitOptions& options) {
  const bool takes_size = options.validation_data->is_tensors();
  return takes_size && !options.validation_batch_size ? options.batch_size
                                                      : options.validation_batch_size;
}

std::string text_of(const std::optional<std::int64_t>& value) {
  return value ? base::str_cat(*value) : "unset";
}

/// What decides the results of a fit, and which collectives it makes. The optimizer's rule and the
/// data are compared where they are created.
comm::Facts facts_of(const CompileOptions& compiled, const FitOptions& options) {
  comm::Facts facts = {{"loss", compiled.loss ? compiled.loss->name() : "none"}};
  for (const MetricChoice& each : compiled.metrics) facts.push_back({"metric", each.name()});
  facts.push_back({"epochs", base::str_cat(options.epochs)});
  facts.push_back({"initial_epoch", base::str_cat(options.initial_epoch)});
  facts.push_back({"steps_per_epoch", text_of(options.steps_per_epoch)});
  facts.push_back({"validation_data", options.validation_data ? "given" : "none"});
  facts.push_back({"validation_steps", text_of(options.validation_steps)});
  facts.push_back({"validation_freq", base::str_cat(options.validation_freq)});
  return facts;
}

std::string variable_table(std::span<const variables::Variable> variables) {
  std::string text;
  std::int64_t total = 0, trainable = 0;
  for (const variables::Variable& variable : variables) {
    text += base::str_cat(" ", variable.name(), "  [", base::join(variable.shape().vec(), ", "),
                          "]  ", variable.numel(), "\n");
    total += variable.numel();
    if (variable.trainable()) trainable += variable.numel();
  }
  return base::str_cat(text, "Total params: ", total, "\nTrainable params: ", trainable,
                       "\nNon-trainable params: ", total - trainable, "\n");
}

std::vector<internal::NamedMetric> make_metrics(distribute::Strategy& strategy,
                                                const std::vector<MetricChoice>& choices) {
  const auto scope = strategy.scope();
  std::vector<internal::NamedMetric> metrics;
  for (const MetricChoice& choice : choices) {
    const bool is_new = std::none_of(metrics.begin(), metrics.end(),
                                     [&](const auto& each) { return each.name == choice.name(); });
    check_argument(is_new && choice.name() != "loss",
                   base::str_cat("Two metrics would have the name '", choice.name(), "'."));
    metrics.push_back({choice.name(), choice.metric()
                                          ? choice.metric()
                                          : std::shared_ptr<const metrics::PredictionMetric>(
                                                metrics::make_metric(choice.name()))});
  }
  return metrics;
}

}  // namespace

struct Model::Impl {
  std::unique_ptr<distribute::Strategy> own_strategy;
  distribute::Strategy& strategy;
  internal::NetworkSource source;
  std::string name;

  std::unique_ptr<internal::Network> network;            // from the first data on
  std::optional<std::vector<std::int64_t>> input_shape;  // of one example; as network
  std::optional<CompileOptions> compiled;
  std::vector<internal::NamedMetric> metrics;
  std::unique_ptr<internal::Trainer> trainer;  // needs network and compiled
  std::int64_t global_step = 0;
  std::int64_t passes = 0;  // over the data, by all fits

  Impl(distribute::Strategy* given, internal::NetworkSource the_source, std::string the_name)
      : own_strategy(given == nullptr && distribute::current_strategy() == nullptr
                         ? std::make_unique<distribute::OneDeviceStrategy>()
                         : nullptr),
        strategy(given != nullptr          ? *given
                 : own_strategy != nullptr ? *own_strategy
                                           : *distribute::current_strategy()),
        source(std::move(the_source)),
        name(std::move(the_name)) {}

  History fit_with_workers(distribute::Coordination& coordination, const LabeledData& data,
                           const FitOptions& options);
  History serve_fit(distribute::Coordination& coordination, internal::EpochIterator& iterator,
                    const std::optional<internal::DividedBatches>& validation,
                    std::int64_t initial_epoch);
  Logs evaluate_with_workers(distribute::Coordination& coordination, const LabeledData& data,
                             const EvaluateOptions& options);
  void add_to(TrainingState& state) const;

  void build(const at::Tensor& features);
  internal::Trainer& trainer_for(const Batch& batch);
  void warn_of_logits(const at::Tensor& features) const;
  void check_compiled(const char* call) const;
};

void Model::Impl::build(const at::Tensor& features) {
  if (network != nullptr) return;
  const at::Tensor example = features.narrow(0, 0, std::min(kExamplesToBuild, features.size(0)))
                                 .to(strategy.devices().front().torch_device);
  network = source.make(strategy, name, example);
  input_shape.emplace(features.sizes().begin() + 1, features.sizes().end());
}

void Model::Impl::check_compiled(const char* call) const {
  check_state(compiled.has_value(),
              base::str_cat(call,
                            ": the model is not compiled. Call compile({.optimizer = ..., "
                            ".loss = ...}) first."));
  check_state(compiled->loss.has_value(),
              base::str_cat(call,
                            ": compile was called without a loss. Set one, such as "
                            "\"sparse_categorical_crossentropy\"."));
}

internal::Trainer& Model::Impl::trainer_for(const Batch& batch) {
  const at::Tensor features = first_nonempty_batch(batch).features;
  build(features);
  if (trainer != nullptr) return *trainer;
  const auto& options = *compiled;
  trainer = std::make_unique<internal::Trainer>(
      strategy, *network, *options.loss, metrics,
      strategy.make_optimizer(network->variables(), options.optimizer.rule(),
                              options.optimizer_options));
  if (options.loss->takes_probabilities()) warn_of_logits(features);
  return *trainer;
}

void Model::Impl::add_to(TrainingState& state) const {
  state.add_variables(network->variables());
  state.add_optimizer("optimizer", trainer->optimizer());
  if (compiled->schedule) state.add_schedule("optimizer", compiled->schedule);
  state.set_global_step(global_step);
}

History Model::Impl::fit_with_workers(distribute::Coordination& coordination,
                                      const LabeledData& data, const FitOptions& options) {
  check_argument(
      options.steps_per_epoch.has_value(),
      "FitOptions::steps_per_epoch is not set: where the chief coordinates, workers read "
      "the data each at its own pace, so only a number of steps ends an epoch.");
  std::optional<internal::DividedBatches> validation;
  if (options.validation_data) {
    validation = {.global_batches = options.validation_data->global_batches(
                      {.batch_size = validation_batch_size(options)}),
                  .steps = options.validation_steps};
    internal::check_ends(*validation);
  }
  {
    internal::EpochIterator iterator(
        data.distributed(strategy, {.batch_size = options.batch_size, .shuffle = options.shuffle}));
    trainer_for(iterator.peek());
    if (!coordination.is_coordinator())
      return serve_fit(coordination, iterator, validation, options.initial_epoch);
  }
  TrainingState state(strategy);
  add_to(state);
  const auto phase = coordination.begin_phase();
  internal::CoordinatedSteps steps(strategy, *trainer, *phase, std::move(validation));
  History history = run_fit(*trainer, state, steps, options);
  phase->end(internal::outcome_of(history));
  global_step = state.global_step();
  return history;
}

History Model::Impl::serve_fit(distribute::Coordination& coordination,
                               internal::EpochIterator& iterator,
                               const std::optional<internal::DividedBatches>& validation,
                               std::int64_t initial_epoch) {
  // As in `fit`: a later fit, or a later initial epoch, has other shuffles.
  const std::int64_t first_pass = std::max(passes, initial_epoch);
  for (std::int64_t pass = 0; pass < first_pass; ++pass) iterator.start_next_epoch();
  passes = first_pass + 1;
  internal::WorkersPart worker(strategy, *trainer);
  std::vector<distribute::RemoteFunction> functions = {worker.training(iterator)};
  if (validation) functions.push_back(worker.evaluation(*validation));
  const auto outcome = coordination.serve_phase(functions);
  trainer->reset();
  global_step = strategy.global_step().value_or(global_step);
  return outcome ? internal::history_of(*outcome)
                 : History{.epochs = {}, .logs = {}, .stop_reason = "the chief has ended"};
}

Logs Model::Impl::evaluate_with_workers(distribute::Coordination& coordination,
                                        const LabeledData& data, const EvaluateOptions& options) {
  const internal::DividedBatches batches{
      .global_batches = data.global_batches({.batch_size = options.batch_size}),
      .steps = options.steps};
  internal::check_ends(batches);
  if (trainer == nullptr) {
    auto reader = batches.global_batches.iterator({.seed = strategy.seed()});
    const auto first = reader.next();
    check_argument(first.has_value(), "The dataset is empty: it has no batch.");
    trainer_for(strategy.split_batch(*first));
  }
  if (!coordination.is_coordinator()) {
    internal::WorkersPart worker(strategy, *trainer);
    const auto outcome = coordination.serve_phase({worker.evaluation(batches)});
    trainer->reset();
    check_state(outcome.has_value(),
                "The chief has ended without this evaluation: all tasks make the same calls of "
                "fit and evaluate.");
    return internal::logs_of(*outcome);
  }
  strategy.start_job();
  const auto phase = coordination.begin_phase();
  internal::ChiefsPart chief(strategy, *trainer, *phase);
  Logs logs = chief.evaluate(batches, [] { return false; }).value();
  phase->end(internal::outcome_of(logs));
  return logs;
}

void Model::Impl::warn_of_logits(const at::Tensor& features) const {
  const at::NoGradGuard no_grad;
  network->eval();
  const std::string prediction_problem = compiled->loss->prediction_problem(
      network->forward(features.narrow(0, 0, 1).to(strategy.devices().front().torch_device)));
  network->train();
  if (!prediction_problem.empty()) base::log_warning(prediction_problem);
}

Model::Model(distribute::Strategy* strategy, internal::NetworkSource source, std::string name)
    : impl_(std::make_unique<Impl>(strategy, std::move(source), std::move(name))) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

void Model::compile(const CompileOptions& options) {
  auto metrics = make_metrics(impl_->strategy, options.metrics);
  impl_->trainer.reset();
  impl_->metrics = std::move(metrics);
  impl_->compiled = options;
}

History Model::fit(const LabeledData& data, const FitOptions& options) {
  check(options);
  if (options.validation_split != 0.0) {
    auto [training, validation] = data.split_off_last(options.validation_split);
    FitOptions split = options;
    split.validation_split = 0.0;
    split.validation_data = std::move(validation);
    return fit(training, split);
  }
  impl_->check_compiled("fit");
  distribute::Strategy& strategy = impl_->strategy;
  distribute::check_agreement(
      strategy.workers(), facts_of(*impl_->compiled, options),
      {.what = "fits",
       .advice = "compile and fit the model with the same options in every worker."});
  if (distribute::Coordination* const coordination = strategy.coordination())
    return impl_->fit_with_workers(*coordination, data, options);
  internal::EpochIterator iterator(
      data.distributed(strategy, {.batch_size = options.batch_size, .shuffle = options.shuffle}));
  std::optional<internal::LocalValidation> validation;
  if (options.validation_data)
    validation.emplace(internal::LocalValidation{
        .data = options.validation_data->distributed(
            strategy,
            {.batch_size = validation_batch_size(options), .input = evaluation_input(strategy)}),
        .steps = options.validation_steps});
  internal::Trainer& trainer = impl_->trainer_for(iterator.peek());
  // A later fit, or a fit with a later initial epoch, uses the shuffles of later epochs.
  const std::int64_t first_pass = std::max(impl_->passes, options.initial_epoch);
  for (std::int64_t pass = 0; pass < first_pass; ++pass) iterator.start_next_epoch();

  TrainingState state(strategy);
  impl_->add_to(state);
  internal::LocalSteps steps(trainer, iterator, std::move(validation));
  History history = run_fit(trainer, state, steps, options);
  impl_->global_step = state.global_step();
  impl_->passes = first_pass + static_cast<std::int64_t>(history.epochs.size());
  return history;
}

Logs Model::evaluate(const LabeledData& data, const EvaluateOptions& options) {
  impl_->check_compiled("evaluate");
  check_positive("steps", options.steps);
  if (distribute::Coordination* const coordination = impl_->strategy.coordination())
    return impl_->evaluate_with_workers(*coordination, data, options);
  const auto batches = data.distributed(
      impl_->strategy,
      {.batch_size = options.batch_size, .input = evaluation_input(impl_->strategy)});
  if (impl_->trainer == nullptr) impl_->trainer_for(internal::EpochIterator(batches).peek());
  return evaluate_batches(*impl_->trainer, batches, options.steps);
}

at::Tensor Model::predict(const at::Tensor& features, const EvaluateOptions& options) {
  return predict(LabeledData::unlabeled(features), options);
}

at::Tensor Model::predict(const data::Dataset<at::Tensor>& batches,
                          const EvaluateOptions& options) {
  return predict(LabeledData::unlabeled(batches), options);
}

at::Tensor Model::predict(const LabeledData& data, const EvaluateOptions& options) {
  check_positive("steps", options.steps);
  const at::NoGradGuard no_grad;
  internal::EpochIterator iterator(data.distributed(
      impl_->strategy,
      {.batch_size = options.batch_size, .input = evaluation_input(impl_->strategy)}));
  impl_->build(first_nonempty_batch(iterator.peek()).features);
  const internal::Network& network = *impl_->network;
  network.eval();
  std::vector<at::Tensor> outputs;
  while (!options.steps || static_cast<std::int64_t>(outputs.size()) < *options.steps) {
    const auto batch = iterator.next();
    if (!batch) break;
    const auto predictions = impl_->strategy.run(
        [&](distribute::ReplicaContext&, const input::LabeledBatch& replica_batch) {
          return network.forward(replica_batch.features);
        },
        *batch);
    outputs.push_back(impl_->strategy.gather(predictions, 0).to(at::kCPU));
  }
  network.train();
  return at::cat(outputs);
}

void Model::build(const std::vector<std::int64_t>& input_shape) {
  std::vector<std::int64_t> shape = {kExamplesToBuild};
  shape.insert(shape.end(), input_shape.begin(), input_shape.end());
  impl_->build(at::zeros(shape));
}

std::string Model::summary() const {
  if (impl_->source.summary) return impl_->source.summary(impl_->input_shape);
  return variable_table(variables());
}

distribute::Strategy& Model::strategy() const {
  return impl_->strategy;
}

std::span<const variables::Variable> Model::variables() const {
  check_state(
      impl_->network != nullptr,
      "The model has no variables yet: they are created with the first data, or by build().");
  return impl_->network->variables();
}

std::int64_t Model::global_step() const {
  return impl_->global_step;
}

}  // namespace brigade::train
