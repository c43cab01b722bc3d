#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/brigade/report.h"
#include "apps/brigade/step_flags.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/labeled_example.h"
#include "brigade/input/one_hot.h"
#include "brigade/layers/end_points.h"
#include "brigade/layers/losses.h"
#include "brigade/models/classifier.h"
#include "brigade/models/registry.h"
#include "brigade/optim/clipping.h"
#include "brigade/variables/variable_lists.h"

namespace brigade::command {

using Model = distribute::Replicated<models::Classifier>;

/// One step of training a classifier. Borrows its members.
struct TrainingStep {
  using Function = std::function<distribute::StepLoss(const input::LabeledBatch&)>;
  using Compiled = distribute::CompiledStep<Function>;

  distribute::Strategy& strategy;
  const Model& model;
  const distribute::Optimizer& optimizer;
  StepFlags flags = {};
  double aux_weight = 0.0;
  /// Made by `compile`; null: the step is never captured.
  std::shared_ptr<Compiled> compiled = nullptr;

  /// From now on `run` replays captured kernels, where it can (`Strategy::compile`).
  void compile() {
    const TrainingStep eager = *this;
    compiled = std::make_shared<Compiled>(strategy.compile(
        Function([eager](const input::LabeledBatch& local) { return eager.train(local); })));
  }
  /// Trains on a global batch. Does not wait for the devices.
  distribute::PerReplica<distribute::StepLoss> run(
      const distribute::PerReplica<input::LabeledBatch>& batch) const {
    if (compiled) return (*compiled)(batch);
    return strategy.run([this](const input::LabeledBatch& local) { return train(local); }, batch);
  }
  /// Adds whether steps are captured, and why the last one was not.
  void describe(Json& json) const {
    const std::string reason = compiled ? compiled->eager_reason() : "";
    json["compile"] = compiled != nullptr;
    json["eager_reason"] = reason.empty() ? Json(nullptr) : Json(reason);
  }
  /// The mean loss over the global batch. Waits for the devices.
  double mean(const distribute::PerReplica<distribute::StepLoss>& losses) const {
    return strategy.reduce_loss(losses).item<double>();
  }

 private:
  distribute::StepLoss train(const input::LabeledBatch& local) const {
    return minimize(total_loss(model(local.features), local.labels));
  }
  /// With the losses of auxiliary logits, and of the variables' regularizers.
  at::Tensor total_loss(const at::Tensor& logits, const at::Tensor& labels) const {
    at::Tensor total = loss_of(logits, labels);
    for (const auto& [name, auxiliary] : layers::end_points(models::kAuxiliaryLogits))
      total = total + aux_weight * loss_of(auxiliary, labels);
    for (const at::Tensor& each : variables::get_regularization_losses()) total = total + each;
    return total;
  }
  at::Tensor loss_of(const at::Tensor& logits, const at::Tensor& labels) const {
    const bool is_mixed = labels.is_floating_point();  // a distribution over the classes
    if (flags.label_smoothing == 0.0 && !is_mixed)
      return layers::losses::sparse_softmax_cross_entropy(logits, labels);
    const std::int64_t classes = logits.size(1);
    at::Tensor wanted = is_mixed ? labels : input::one_hot(labels, classes);
    if (flags.label_smoothing > 0.0)
      wanted = wanted * (1.0 - flags.label_smoothing) +
               flags.label_smoothing / static_cast<double>(classes);
    return layers::losses::categorical_crossentropy(logits, wanted);
  }
  distribute::StepLoss minimize(const at::Tensor& loss) const {
    if (!flags.clip_norm) return optimizer.minimize(loss);
    distribute::Gradients gradients = optimizer.aggregate(optimizer.compute_gradients(loss));
    optim::clip_by_global_norm_(gradients, *flags.clip_norm);
    return optimizer.apply_gradients(gradients);
  }
};

}  // namespace brigade::command
