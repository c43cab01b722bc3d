#pragma once

#include <cstdint>
#include <optional>

#include "brigade/train/model/epoch_iterator.h"
#include "brigade/train/model/fit_loop.h"
#include "brigade/train/model/fit_steps.h"
#include "brigade/train/model/labeled_data.h"

namespace brigade::train::internal {

struct LocalValidation {
  LabeledData::Distributed data;
  std::optional<std::int64_t> steps = std::nullopt;  ///< the first batches; unset: all
};

/// The steps of a fit in this process. What it is given must outlive it.
class LocalSteps final : public FitSteps {
 public:
  LocalSteps(Trainer& trainer, EpochIterator& iterator, std::optional<LocalValidation> validation)
      : trainer_(trainer), iterator_(iterator), validation_(std::move(validation)) {}

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
};

}  // namespace brigade::train::internal
