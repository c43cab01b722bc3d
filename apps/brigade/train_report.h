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

/// The configuration of the training, with defaults filled in.
Json configuration(const TrainFlags& flags, const Prepared& prepared);

/// The results: those of the end, and evaluations by step. docs/command.md explains each key.
Json result_json(const TrainingResult& result,
                 const std::optional<train::EvaluationResult>& evaluation,
                 const std::map<std::int64_t, train::EvaluationResult>& evaluations,
                 const std::string& weights_sha256);

/// The text of a run.json; `result` is null until there is one.
std::string run_json(const Json& configuration, const Json& result);

/// The human-readable result.
std::string summary(const Json& result);

/// Says on standard error what will be trained.
void announce(const TrainFlags& flags, const Prepared& prepared);

/// Says on standard error where a signal stopped the training, and whether the weights were saved.
void report_interrupted(const TrainingResult& result, std::optional<std::int64_t> total_steps,
                        const Prepared& prepared);

/// Says on standard error that the run is finished, and how to train further.
void report_finished(const Json& result, const Prepared& prepared);

/// Says on standard error how the steps spent their time.
void report_step_breakdown(const TrainingResult& result);

/// Warns on standard error if the training diverged.
void warn_of_divergence(const TrainingResult& result);

}  // namespace brigade::command
