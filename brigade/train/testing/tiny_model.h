#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/stack.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/layers/v1/tf_layers.h"
#include "brigade/optim/sgd.h"
#include "brigade/train/model/model.h"

namespace brigade::train {

/// For tests: a linear layer with zero initial weights, which are the same for any number of
/// replicas.
inline auto line(std::int64_t units = 1) {
  return [units](const at::Tensor& x, variables::Mode) {
    return layers::v1::dense(
        x, units, {.kernel_initializer = variables::zeros_initializer(), .name = "line"});
  };
}

/// For tests: `count` examples [N, 2] of y = x0 - 2 x1 + 1, float64.
inline LabeledData line_data(std::int64_t count) {
  const at::Tensor i = at::arange(count, at::kDouble);
  const at::Tensor features = at::stack({(i * 0.7).sin(), (i * 1.3).cos()}, 1);
  return {features, features.select(1, 0) - 2 * features.select(1, 1) + 1};
}

/// For tests: a fit in which callbacks see these values of the metric `name`, one per epoch, with
/// one batch per epoch.
class ScriptedFit {
 public:
  ScriptedFit(std::string name, std::vector<double> values)
      : name_(std::move(name)), values_(std::move(values)), model_(strategy_, line()) {
    model_.compile({.optimizer = optim::Sgd{.learning_rate = 0.5}, .loss = "mse"});
  }

  History run(const std::vector<CallbackPtr>& callbacks,
              const SessionOptions& session = quiet_session()) {
    FitOptions options{.epochs = static_cast<std::int64_t>(values_.size()),
                       .batch_size = 4,
                       .callbacks = {std::make_shared<Script>(name_, values_)},
                       .verbose = Verbose::kSilent,
                       .session = session};
    for (const CallbackPtr& callback : callbacks) options.callbacks.push_back(callback);
    return model_.fit(line_data(4), options);
  }
  Model& model() { return model_; }

 private:
  class Script final : public Callback {
   public:
    Script(std::string name, std::vector<double> values)
        : name_(std::move(name)), values_(std::move(values)) {}
    void on_epoch_end(FitContext& fit) override {
      fit.add_log(name_, values_.at(static_cast<std::size_t>(fit.epoch())));
    }

   private:
    std::string name_;
    std::vector<double> values_;
  };

  std::string name_;
  std::vector<double> values_;
  distribute::MirroredStrategy strategy_{distribute::cpus(1)};
  Model model_;
};

}  // namespace brigade::train
