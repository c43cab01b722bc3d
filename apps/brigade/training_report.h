#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>

#include "apps/brigade/report.h"
#include "apps/brigade/train_flags.h"
#include "apps/brigade/train_setup.h"
#include "apps/brigade/training_loop.h"
#include "brigade/distribute/update_staleness.h"

namespace brigade::command {

/// The configuration of a training, with defaults filled in.
Json training_configuration(const TrainFlags& flags, const Prepared& prepared);

/// The results: those of the end, and evaluations by step. docs/guide/command.md explains each key.
Json training_result_json(const TrainingResult& result,
                          const std::optional<train::EvaluationResult>& evaluation,
                          const std::map<std::int64_t, train::EvaluationResult>& evaluations,
                          const std::string& weights_sha256);
/// How stale this worker's updates were; null if they cannot be.
Json staleness_json(const std::optional<distribute::UpdateStaleness>& staleness);

/// The text of a run.json; `result` is null until there is one.
std::string run_json(const Json& configuration, const Json& result,
                     std::optional<std::int64_t> total_steps);
/// The lines that the command prints at the end of a training.
std::string training_summary(const Json& result);

/// Lines in the log of a training.
void announce_training(std::ostream& log, const TrainFlags& flags, const Prepared& prepared);
void report_interrupted(std::ostream& log, const TrainingResult& result,
                        std::optional<std::int64_t> total_steps, const Prepared& prepared);
void report_finished(std::ostream& log, const Json& result, const Prepared& prepared);
void report_step_breakdown(std::ostream& log, const TrainingResult& result);
void warn_of_divergence(std::ostream& log, const TrainingResult& result);

}  // namespace brigade::command
