// Common mistakes of first programs, one per function. compile_errors_test.py compiles this file,
// and expects that the first error of each function is a static_assert with the words after
// "error:".
#include <torch/nn/modules/linear.h>

#include "brigade/data/dataset.h"
#include "brigade/distribute/strategies/mirrored_strategy.h"
#include "brigade/input/labeled_example.h"
#include "brigade/optim/adam.h"
#include "brigade/train/model/model.h"
#include "brigade/train/session/session.h"

using namespace brigade;

struct NetworkImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x; }
};
TORCH_MODULE(Network);

struct OwnBatch {
  at::Tensor words;
};

using Labeled = distribute::PerReplica<input::LabeledBatch>;

void takes_another_batch_and_no_context(distribute::Strategy& strategy, const Labeled& batch) {
  const auto function = [](const at::Tensor& examples) { return examples; };
  const auto features = strategy.run(function, batch);  // error: does not take the arguments of run
}

void takes_another_batch(distribute::Strategy& strategy, const Labeled& batch) {
  const auto function = [](distribute::ReplicaContext&, const at::Tensor& share) { return share; };
  const auto features = strategy.run(function, batch);  // error: does not take the arguments of run
}

void creates_a_holder(distribute::Strategy& strategy) {
  auto model = strategy.create<Network>();  // error: write create<NetworkImpl>()
  strategy.run([&](distribute::ReplicaContext&) { return model(at::Tensor()); });
}

void returns_a_holder(distribute::Strategy& strategy) {
  const auto factory = [] { return Network(); };
  auto model = strategy.create(factory);  // error: return network.ptr()
}

void distributes_what_cannot_be_cut(distribute::Strategy& strategy,
                                    const data::Dataset<OwnBatch>& batches) {
  const auto function = [](distribute::ReplicaContext&, const OwnBatch&) {};
  const auto distributed = strategy.distribute(batches);  // error: static constexpr auto fields
  for (const auto& batch : distributed) strategy.run(function, batch);
}

void takes_apart_what_names_no_fields(const data::Dataset<OwnBatch>& batches) {
  const auto elements = batches.unbatch();  // error: static constexpr auto fields
}

void gives_a_model_a_function_that_returns_a_pair() {
  const auto function = [](const at::Tensor& x, variables::Mode) { return std::pair(x, x); };
  const train::Model model(function);  // error: Model takes a function of layers
}

struct TwoOutputs : torch::nn::Module {
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& x) { return {x, x}; }
};

void gives_a_model_a_module_that_returns_a_pair(distribute::Strategy& strategy) {
  const auto factory = [] { return std::make_shared<TwoOutputs>(); };
  const auto m = train::Model::from_module(strategy, factory);  // error: The forward of a module
}

void fits_batches_of_another_type(train::Model& model, const data::Dataset<OwnBatch>& batches) {
  model.fit(batches);  // error: Model cannot train on batches of this type
}

void fits_named_tensors(train::Model& model, const data::Dataset<input::NamedTensors>& batches) {
  model.fit(batches);  // error: does not say which of them are labels
}

void predicts_a_list(train::Model& model, const at::Tensor& x) {
  const auto outputs = model.predict<std::vector<at::Tensor>>(x);  // error: Model::predict returns
}

void trains_by_a_step_of_another_kind() {
  const auto step = [](const at::Tensor& x) { return x; };
  const train::CustomTrainStep own({"loss"}, step);  // error: A training step of your own must take
}

struct OwnOptimizer {
  void step() {}
};

void gives_an_optimizer_that_is_no_rule(distribute::Strategy& strategy,
                                        const distribute::Replicated<NetworkImpl>& model) {
  const auto made = strategy.optimizer(model, OwnOptimizer());  // error: update rule of Brigade
}

void gives_parameters_in_place_of_a_model(distribute::Strategy& strategy,
                                          const distribute::Replicated<NetworkImpl>& model) {
  const auto parameters = model->parameters();
  strategy.optimizer(parameters, optim::Adam{});  // error: a model that Strategy::create has made
}

void returns_no_loss(train::MonitoredTrainingSession& session,
                     distribute::DistributedIterator<input::LabeledBatch>& batches) {
  const auto function = [](const input::LabeledBatch&) {};
  session.run(batches, function);  // error: must return the step's loss
}

void takes_the_mean_of_what_minimize_returned(
    const distribute::Strategy& strategy,
    const distribute::PerReplica<distribute::StepLoss>& losses) {
  strategy.reduce_mean_over_examples(losses);  // error: is reduced by Strategy::reduce_loss
}

void takes_the_mean_of_numbers(const distribute::Strategy& strategy,
                               const distribute::PerReplica<double>& numbers) {
  strategy.reduce_mean_over_examples(numbers);  // error: takes one tensor per replica
}
