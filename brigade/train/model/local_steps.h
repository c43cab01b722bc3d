#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "brigade/train/model/class_weights.h"
#include "brigade/train/model/epoch_iterator.h"
#include "brigade/train/model/fit_loop.h"
#include "brigade/train/model/fit_steps.h"
#include "brigade/train/model/model_batches.h"

namespace brigade::train::internal {

struct LocalValidation {
  DistributedBatches data;
  std::optional<std::int64_t> steps = std::nullopt;  ///< the first batches; unset: all
};

/// The steps of a fit in this process. What it is given must outlive it.
class LocalSteps final : public FitSteps {
 public:
  LocalSteps(Trainer& trainer, EpochIterator& iterator, std::optional<LocalValidation> validation,
             std::optional<ClassWeights> class_weights)
      : trainer_(trainer),
        iterator_(iterator),
        validation_(std::move(validation)),
        class_weights_(std::move(class_weights)) {}

  void add_to(TrainingState& state) override { state.add_iterator("fit", iterator_); }
  std::optional<std::int64_t> pass_length() const override { return iterator_.batches(); }
  bool has_next() override { return iterator_.has_next(); }
  std::optional<FitStep> next(const Request& request) override;
  void stop_early() override {}
  void complete_epoch() override {}
  std::optional<Logs> validate(const std::function<bool()>& should_stop) override;
  void start_next_pass() override { iterator_.start_next_epoch(); }

 private:
  Trainer& trainer_;
  EpochIterator& iterator_;
  const std::optional<LocalValidation> validation_;
  const std::optional<ClassWeights> class_weights_;
};

}  // namespace brigade::train::internal
