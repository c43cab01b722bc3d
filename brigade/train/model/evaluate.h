#pragma once

#include <ATen/core/grad_mode.h>

#include <cstdint>

#include "brigade/data/dataset.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/labeled_example.h"
#include "brigade/layers/losses.h"
#include "brigade/metrics/accuracy.h"
#include "brigade/metrics/mean.h"

namespace brigade::train {

/// What `evaluate` returns for a classifier.
struct EvaluationResult {
  double loss = 0.0;            ///< mean over all examples
  double accuracy = 0.0;        ///< fraction of examples classified correctly
  double top_5_accuracy = 0.0;  ///< fraction of examples whose class has one of the 5 best scores
  std::int64_t examples = 0;
};

/// Options of `evaluate` for a classifier.
struct ClassifierEvaluationOptions {
  /// Whether kernels are captured once and replayed, where they can be (`Strategy::compile`).
  bool compile = false;
  /// Applied to each replica's batch on its device, such as an `input::ImageNormalizer`
  /// (`DistributedDataset::map_on_replica`); null: nothing.
  distribute::ReplicaMapFunction<input::LabeledBatch> map_on_replica = nullptr;
};

/// The options of the input of an evaluation, for `Strategy::distribute`. Workers without
/// collectives cannot add up their results, so each evaluates all data.
inline distribute::InputOptions evaluation_input(const distribute::Strategy& strategy) {
  const bool is_independent = strategy.num_workers() > 1 && !strategy.has_worker_collectives();
  return {.auto_shard = is_independent ? distribute::AutoShardPolicy::kOff
                                       : distribute::AutoShardPolicy::kAuto};
}

namespace internal {

/// Keeps a model in evaluation mode; the destructor puts it back into training mode, also after an
/// error. `Evaluated` has `eval` and `train`, as `distribute::Replicated`; it must outlive this.
///
/// Thread-safety: one thread, outside of replicas; meanwhile no other may train the model.
template <class Evaluated>
class EvaluationMode {
 public:
  explicit EvaluationMode(const Evaluated& model) : model_(model) { model_.eval(); }
  ~EvaluationMode() { model_.train(); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  const Evaluated& model_;
};

}  // namespace internal

/// The mean sparse softmax cross entropy and the accuracies of a classifier over one epoch of
/// `dataset`, whose elements are global batches, on all replicas of `strategy`. Exact also for a
/// smaller last batch: every example counts once. Workers without collectives each evaluate all
/// data. The model is in evaluation mode during the call and in training mode afterwards; no
/// autograd graph is built.
template <class Module>
EvaluationResult evaluate(distribute::Strategy& strategy,
                          const distribute::Replicated<Module>& model,
                          const data::Dataset<input::LabeledBatch>& dataset,
                          const ClassifierEvaluationOptions& options = {}) {
  const at::NoGradGuard no_grad;
  const auto scope = strategy.scope();
  const metrics::Mean loss("evaluation_loss");
  const metrics::SparseCategoricalAccuracy accuracy("evaluation_accuracy");
  const metrics::SparseTopKCategoricalAccuracy top_5(5, "evaluation_top_5_accuracy");
  const internal::EvaluationMode mode(model);
  const auto evaluate_batch = [&](distribute::ReplicaContext&,
                                  const input::LabeledBatch& replica_batch) {
    const at::Tensor logits = model(replica_batch.features);
    loss.update_state(layers::losses::sparse_categorical_crossentropy(
        logits, replica_batch.labels, {.reduction = layers::losses::Reduction::kNone}));
    accuracy.update_state(replica_batch.labels, logits);
    top_5.update_state(replica_batch.labels, logits);
  };
  auto compiled = strategy.compile(evaluate_batch);
  auto batches = strategy.distribute(dataset, evaluation_input(strategy));
  if (options.map_on_replica) batches = batches.map_on_replica(options.map_on_replica);
  for (const auto& batch : batches) {
    if (options.compile) {
      compiled(batch);
    } else {
      strategy.run(evaluate_batch, batch);
    }
  }
  return {.loss = loss.result(),
          .accuracy = accuracy.result(),
          .top_5_accuracy = top_5.result(),
          .examples = static_cast<std::int64_t>(accuracy.count())};
}

}  // namespace brigade::train
