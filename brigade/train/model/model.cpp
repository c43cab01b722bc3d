#include "brigade/train/model/model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/cardinality.h"
#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/worker_group.h"
#include "brigade/train/model/class_weights.h"
#include "brigade/train/model/coordinated_fit.h"
#include "brigade/train/model/evaluate.h"
#include "brigade/train/model/fit_loop.h"
#include "brigade/train/model/fit_steps.h"
#include "brigade/train/model/model_batches.h"
#include "brigade/train/model/trainer.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {
namespace {

using Batch = internal::EpochIterator::Batch;
using Batching = LabeledData::Batching;

/// The number of examples with which a model is built: few, so that it costs little.
constexpr std::int64_t kExamplesToBuild = 2;

const ModelBatch& first_nonempty_batch(const Batch& batch) {
  for (std::size_t replica = 0; replica < batch.size(); ++replica)
    if (!batch.is_empty(replica)) return batch[replica];
  return batch[0];
}

void check_positive(const char* name, const std::optional<std::int64_t>& value) {
  check_argument(!value || *value > 0, name, " is ", value.value_or(0), " and must be at least 1.");
}

void check(const FitOptions& options) {
  check_argument(options.initial_epoch >= 0 && options.epochs >= options.initial_epoch,
                 "epochs is ", options.epochs, " and initial_epoch is ", options.initial_epoch,
                 ": epochs is the end of the range of epochs, not their number.");
  check_positive("steps_per_epoch", options.steps_per_epoch);
  check_positive("validation_steps", options.validation_steps);
  check_positive("validation_freq", options.validation_freq);
  check_positive("steps_per_execution", options.steps_per_execution);
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

std::string text_of(const std::vector<MetricChoice>& metrics) {
  std::vector<std::string> names;
  for (const MetricChoice& each : metrics) names.push_back(each.name());
  return base::join(names, ", ");
}

void add_facts(comm::Facts& facts, const CompileOptions& compiled) {
  facts.push_back({"loss", compiled.loss ? compiled.loss->name() : "none"});
  for (const MetricChoice& each : compiled.metrics) facts.push_back({"metric", each.name()});
  for (const auto& [output, loss] : compiled.losses)
    facts.push_back({base::str_cat("loss of ", output), loss.name()});
  for (const auto& [output, weight] : compiled.loss_weights)
    facts.push_back({base::str_cat("loss weight of ", output), base::str_cat(weight)});
  for (const auto& [output, metrics] : compiled.output_metrics)
    facts.push_back({base::str_cat("metrics of ", output), text_of(metrics)});
  if (!compiled.weighted_metrics.empty())
    facts.push_back({"weighted_metrics", text_of(compiled.weighted_metrics)});
  for (const auto& [output, metrics] : compiled.output_weighted_metrics)
    facts.push_back({base::str_cat("weighted metrics of ", output), text_of(metrics)});
  for (const auto& [output, label] : compiled.labels)
    facts.push_back({base::str_cat("label of ", output), label});
  if (compiled.train_step)
    facts.push_back({"train_step", base::join(compiled.train_step->logs(), ", ")});
}

/// What decides the results of a fit, and which collectives it makes. The optimizer's rule and the
/// data are compared where they are created.
comm::Facts facts_of(const CompileOptions& compiled, const FitOptions& options) {
  comm::Facts facts;
  add_facts(facts, compiled);
  facts.push_back({"epochs", base::str_cat(options.epochs)});
  facts.push_back({"initial_epoch", base::str_cat(options.initial_epoch)});
  facts.push_back({"steps_per_epoch", text_of(options.steps_per_epoch)});
  facts.push_back({"steps_per_execution", base::str_cat(options.steps_per_execution)});
  for (const auto& [label, weight] : options.class_weight)
    facts.push_back({base::str_cat("class_weight of ", label), base::str_cat(weight)});
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

/// The examples with which a network is built.
input::NamedTensors first_examples(const input::NamedTensors& inputs, std::int64_t count,
                                   const c10::Device& device) {
  return input::map_tensors(inputs, [&](const at::Tensor& each) {
    return each.narrow(0, 0, std::min(count, each.size(0))).to(device);
  });
}

/// The outputs of all replicas, on the CPU.
input::NamedTensors gathered(const distribute::Strategy& strategy,
                             const distribute::PerReplica<input::NamedTensors>& outputs) {
  std::vector<at::Tensor> tensors;
  for (const std::string& name : outputs[0].names()) {
    std::vector<at::Tensor> parts;
    for (const input::NamedTensors& each : outputs.values()) parts.push_back(each[name]);
    tensors.push_back(
        strategy.gather(distribute::PerReplica(std::move(parts), outputs.examples()), 0)
            .to(at::kCPU));
  }
  return {outputs[0].shared_names(), std::move(tensors)};
}

std::optional<internal::ClassWeights> class_weights_of(const FitOptions& options) {
  if (options.class_weight.empty()) return std::nullopt;
  return internal::ClassWeights(options.class_weight);
}

/// `option` is that which ends them.
void check_ends(const internal::DistributedBatches& data, const std::optional<std::int64_t>& steps,
                const char* call, const char* option) {
  check_argument(steps || data.cardinality() != data::kInfinite, call,
                 ": the data never ends (repeat), and ", option,
                 " does not say how many batches to use.");
}

struct LocalValidation {
  internal::DistributedBatches data;
  std::optional<std::int64_t> steps = std::nullopt;  // the first batches; unset: all
};

/// The steps of a fit in this process. What it is given must outlive it.
class LocalSteps final : public internal::FitSteps {
 public:
  LocalSteps(internal::Trainer& trainer, internal::EpochIterator& iterator,
             std::optional<LocalValidation> validation,
             std::optional<internal::ClassWeights> class_weights)
      : trainer_(trainer),
        iterator_(iterator),
        validation_(std::move(validation)),
        class_weights_(std::move(class_weights)) {}

  void add_to(TrainingState& state) override { state.add_iterator("fit", iterator_); }
  std::optional<std::int64_t> pass_length() const override { return iterator_.batches(); }
  bool has_next() override { return iterator_.has_next(); }
  std::optional<internal::FitStep> next(const Request&) override {
    const auto batch = iterator_.next();
    if (!batch) return std::nullopt;
    const internal::ClassWeights* const weights = class_weights_ ? &*class_weights_ : nullptr;
    return internal::FitStep{.values = trainer_.train(*batch, weights),
                             .examples = batch->examples()->global};
  }
  void stop_early() override {}
  void complete_epoch() override {}
  std::optional<Logs> validate(const std::function<bool()>&) override {
    if (!validation_) return std::nullopt;
    return evaluate_batches(trainer_, validation_->data, validation_->steps);
  }
  void start_next_pass() override { iterator_.start_next_epoch(); }

 private:
  internal::Trainer& trainer_;
  internal::EpochIterator& iterator_;
  const std::optional<LocalValidation> validation_;
  const std::optional<internal::ClassWeights> class_weights_;
};

}  // namespace

struct Model::Impl {
  std::unique_ptr<distribute::Strategy> own_strategy;
  distribute::Strategy& strategy;
  internal::NetworkSource source;
  std::string name;

  std::unique_ptr<internal::Network> network;            // from the first data on
  std::optional<std::vector<std::int64_t>> input_shape;  // of one example; as network
  std::optional<CompileOptions> compiled;
  std::optional<internal::TrainerParts> parts;  // of compiled
  std::unique_ptr<internal::Trainer> trainer;   // needs network and compiled
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
                    const FitOptions& options);
  Logs evaluate_with_workers(distribute::Coordination& coordination, const LabeledData& data,
                             const EvaluateOptions& options);
  void add_to(TrainingState& state) const;

  void build(const input::NamedTensors& inputs);
  internal::Trainer& trainer_for(const Batch& batch);
  void check_outputs(const ModelBatch& batch) const;
  void check_compiled(const char* call) const;
  void check_loss(const char* call) const;
};

void Model::Impl::build(const input::NamedTensors& inputs) {
  if (network != nullptr) return;
  check_argument(!inputs.tensors().empty(), "The data of a Model has no input.");
  network = source.make(
      strategy, name,
      first_examples(inputs, kExamplesToBuild, strategy.devices().front().torch_device));
  const at::IntArrayRef sizes = inputs.tensors().front().sizes();
  if (inputs.tensors().size() == 1) input_shape.emplace(sizes.begin() + 1, sizes.end());
}

void Model::Impl::check_compiled(const char* call) const {
  check_state(compiled.has_value(), call,
              ": the model is not compiled. Call compile({.optimizer = ..., .loss = ...}) first.");
}

void Model::Impl::check_loss(const char* call) const {
  check_state(
      !parts->losses.empty(), call,
      ": compile was called without a loss. Set one, such as \"sparse_categorical_crossentropy\".");
}

internal::Trainer& Model::Impl::trainer_for(const Batch& batch) {
  const ModelBatch& first = first_nonempty_batch(batch);
  build(first.inputs);
  if (trainer != nullptr) return *trainer;
  check_outputs(first);
  const auto& options = *compiled;
  trainer = std::make_unique<internal::Trainer>(
      strategy, *network, *parts,
      strategy.make_optimizer(network->variables(), options.optimizer.rule(),
                              options.optimizer_options));
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
  check_argument(options.steps_per_epoch.has_value(),
                 "FitOptions::steps_per_epoch is not set: where the chief coordinates, workers "
                 "read the data each at its own pace, so only a number of steps ends an epoch.");
  std::optional<internal::DividedBatches> validation;
  if (options.validation_data) {
    validation.emplace(internal::DividedBatches{
        .global_batches =
            options.validation_data->all_batches({.batch_size = validation_batch_size(options)}),
        .steps = options.validation_steps});
    internal::check_ends(*validation);
  }
  {
    internal::EpochIterator iterator(data.distributed_batches(
        strategy, {.batch_size = options.batch_size, .shuffle = options.shuffle}));
    trainer_for(iterator.peek());
    if (!coordination.is_coordinator())
      return serve_fit(coordination, iterator, validation, options);
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
                               const FitOptions& options) {
  // As in `fit`: a later fit, or a later initial epoch, has other shuffles.
  const std::int64_t first_pass = std::max(passes, options.initial_epoch);
  for (std::int64_t pass = 0; pass < first_pass; ++pass) iterator.start_next_epoch();
  passes = first_pass + 1;
  internal::WorkersPart worker(strategy, *trainer, class_weights_of(options));
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
      .global_batches = data.all_batches({.batch_size = options.batch_size}),
      .steps = options.steps};
  internal::check_ends(batches);
  if (trainer == nullptr) {
    auto reader = batches.global_batches.reader(strategy.seed());
    const auto first = reader.next();
    check_argument(first.has_value(), "The dataset is empty: it has no batch.");
    trainer_for(strategy.split_batch(*first));
  }
  if (!coordination.is_coordinator()) {
    internal::WorkersPart worker(strategy, *trainer);
    const auto outcome = coordination.serve_phase({worker.evaluation(batches)});
    trainer->reset();
    check_state(outcome.has_value(),
                "The chief has ended without this evaluation: all tasks make the same calls of fit "
                "and evaluate.");
    return internal::logs_of(*outcome);
  }
  strategy.start_job();
  const auto phase = coordination.begin_phase();
  internal::ChiefsPart chief(strategy, *trainer, *phase);
  Logs logs = chief.evaluate(batches, [] { return false; }).value();
  phase->end(internal::outcome_of(logs));
  return logs;
}

/// Refuses losses and metrics of outputs that there are not before a step is made, and warns of
/// logits in place of probabilities. A model of one output whose loss takes anything needs no
/// forward pass for that.
void Model::Impl::check_outputs(const ModelBatch& batch) const {
  const bool is_needed =
      std::ranges::any_of(parts->losses.terms(),
                          [](const auto& term) {
                            return !term.output.empty() || term.loss.takes_probabilities();
                          }) ||
      std::ranges::any_of(parts->metrics, [](const auto& each) { return !each.output.empty(); });
  if (!is_needed) return;
  using Labels = internal::OutputLabels;
  const at::NoGradGuard no_grad;
  const internal::EvaluationMode mode(*network);
  const input::NamedTensors outputs =
      network->forward(first_examples(batch.inputs, 1, strategy.devices().front().torch_device));
  for (const auto& term : parts->losses.terms()) {
    parts->labels.label(batch, outputs, term.output);
    const std::string problem = term.loss.prediction_problem(Labels::output(outputs, term.output));
    if (!problem.empty()) base::log_warning(problem);
  }
  for (const internal::NamedMetric& each : parts->metrics) {
    parts->labels.label(batch, outputs, each.output);
    Labels::output(outputs, each.output);
  }
}

Model::Model(distribute::Strategy* strategy, internal::NetworkSource source, std::string name)
    : impl_(std::make_unique<Impl>(strategy, std::move(source), std::move(name))) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

void Model::compile(const CompileOptions& options) {
  auto parts = internal::parts_of(impl_->strategy, options);
  impl_->trainer.reset();
  impl_->parts = std::move(parts);
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
  if (!impl_->parts->step) impl_->check_loss("fit");
  if (options.validation_data) impl_->check_loss("fit with validation_data");
  std::optional<internal::ClassWeights> class_weights = class_weights_of(options);
  distribute::Strategy& strategy = impl_->strategy;
  distribute::check_agreement(
      strategy.workers(), facts_of(*impl_->compiled, options),
      {.what = "fits",
       .advice = "compile and fit the model with the same options in every worker."});
  if (distribute::Coordination* const coordination = strategy.coordination())
    return impl_->fit_with_workers(*coordination, data, options);
  const auto batches = data.distributed_batches(
      strategy, {.batch_size = options.batch_size, .shuffle = options.shuffle});
  if (options.session.hooks.empty() && options.callbacks.empty())  // they may stop the training
    check_ends(batches, options.steps_per_epoch, "fit", "FitOptions::steps_per_epoch");
  internal::EpochIterator iterator(batches);
  std::optional<LocalValidation> validation;
  if (options.validation_data) {
    validation.emplace(LocalValidation{.data = options.validation_data->distributed_batches(
                                           strategy, {.batch_size = validation_batch_size(options),
                                                      .input = evaluation_input(strategy)}),
                                       .steps = options.validation_steps});
    check_ends(validation->data, validation->steps, "fit", "FitOptions::validation_steps");
  }
  internal::Trainer& trainer = impl_->trainer_for(iterator.peek());
  // A later fit, or a fit with a later initial epoch, uses the shuffles of later epochs.
  const std::int64_t first_pass = std::max(impl_->passes, options.initial_epoch);
  for (std::int64_t pass = 0; pass < first_pass; ++pass) iterator.start_next_epoch();

  TrainingState state(strategy);
  impl_->add_to(state);
  LocalSteps steps(trainer, iterator, std::move(validation), std::move(class_weights));
  History history = run_fit(trainer, state, steps, options);
  impl_->global_step = state.global_step();
  impl_->passes = first_pass + static_cast<std::int64_t>(history.epochs.size());
  return history;
}

Logs Model::evaluate(const LabeledData& data, const EvaluateOptions& options) {
  impl_->check_compiled("evaluate");
  impl_->check_loss("evaluate");
  check_positive("steps", options.steps);
  if (distribute::Coordination* const coordination = impl_->strategy.coordination())
    return impl_->evaluate_with_workers(*coordination, data, options);
  const auto batches = data.distributed_batches(
      impl_->strategy,
      {.batch_size = options.batch_size, .input = evaluation_input(impl_->strategy)});
  check_ends(batches, options.steps, "evaluate", "EvaluateOptions::steps");
  if (impl_->trainer == nullptr) impl_->trainer_for(internal::EpochIterator(batches).peek());
  return evaluate_batches(*impl_->trainer, batches, options.steps);
}

input::NamedTensors Model::predict_all(const LabeledData& data, const EvaluateOptions& options) {
  check_positive("steps", options.steps);
  const at::NoGradGuard no_grad;
  const auto batches = data.distributed_batches(
      impl_->strategy,
      {.batch_size = options.batch_size, .input = evaluation_input(impl_->strategy)});
  check_ends(batches, options.steps, "predict", "EvaluateOptions::steps");
  internal::EpochIterator iterator(batches);
  impl_->build(first_nonempty_batch(iterator.peek()).inputs);
  const internal::Network& network = *impl_->network;
  const internal::EvaluationMode mode(network);
  std::vector<input::NamedTensors> outputs;
  while (!options.steps || static_cast<std::int64_t>(outputs.size()) < *options.steps) {
    const auto batch = iterator.next();
    if (!batch) break;
    outputs.push_back(gathered(
        impl_->strategy, impl_->strategy.run(
                             [&](distribute::ReplicaContext&, const ModelBatch& replica_batch) {
                               return network.forward(replica_batch.inputs);
                             },
                             *batch)));
  }
  return data::Unbatch<input::NamedTensors>::concatenate(std::move(outputs));
}

void Model::build(const std::vector<std::int64_t>& input_shape) {
  std::vector<std::int64_t> shape = {kExamplesToBuild};
  shape.insert(shape.end(), input_shape.begin(), input_shape.end());
  impl_->build(unnamed(at::zeros(shape)));
}

void Model::build(const input::NamedTensors& inputs) {
  impl_->build(inputs);
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
