#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "apps/brigade/report.h"
#include "apps/brigade/train_setup.h"
#include "apps/brigade/training_loop.h"
#include "brigade/train/model/evaluate.h"

namespace brigade::command {

/// What was asked for, with defaults filled in.
Json configuration(const TrainFlags& flags, const Prepared& prepared);

/// What came out: at the end, and on the way by step. docs/command.md says what each key is.
Json result_json(const TrainingResult& result,
                 const std::optional<train::EvaluationResult>& evaluation,
                 const std::map<std::int64_t, train::EvaluationResult>& evaluations,
                 const std::string& weights_sha256);

/// The text of a run.json; `result` is null until there is one.
std::string run_json(const Json& configuration, const Json& result);

/// The result for people.
std::string summary(const Json& result);

/// Says on standard error what is about to be trained.
void announce(const TrainFlags& flags, const Prepared& prepared);

/// Says on standard error where a signal stopped the training, and what became of the weights.
void tell_interrupted(const TrainingResult& result, std::optional<std::int64_t> total_steps,
                      const Prepared& prepared);

/// Says on standard error that there is nothing to train, and what to do to train on.
void tell_finished(const Json& result, const Prepared& prepared);

/// Says on standard error on what the steps spent their time.
void tell_shares(const TrainingResult& result);

/// Warns on standard error if the training ran off to infinity.
void warn_of_divergence(const TrainingResult& result);

}  // namespace brigade::command
