#include "apps/brigade/training_report.h"

#include <sys/utsname.h>
#include <torch/version.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/brigade/json_values.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/device/device.h"
#include "brigade/machine/process_memory.h"
#include "brigade/tuning/tuning_report.h"

namespace brigade::command {

namespace {

/// Of the machine and the build that train.
Json machine_facts() {
  utsname system{};
  ::uname(&system);
  const device::Hardware hardware = device::discover_hardware();
  return {{"host", system.nodename},
          {"system", base::str_cat(system.sysname, " ", system.release, ", ", system.machine)},
          {"processor", hardware.topology.processor},
          {"usable_cores", hardware.topology.usable_cores()},
          {"memory_bytes", machine::machine_memory()},
          {"gpu_cards", hardware.gpu_cards},
          {"brigade", BRIGADE_VERSION},
          {"libtorch", TORCH_VERSION},
          {"tuning", tuning::report().describe()}};
}

constexpr double kReportedInputFraction = 0.1;

/// [replica]: {"input": 0.01, ...}; an empty list if no step was measured.
Json step_breakdown_json(const std::vector<distribute::StepTimes>& replicas) {
  Json all = Json::array();
  for (const distribute::StepTimes& times : replicas) {
    if (times.steps == 0) continue;
    Json& breakdown = all.emplace_back(Json::object());
    for (const comm::StepPhase phase : comm::kStepPhases)
      breakdown[std::string(to_string(phase))] = times.fraction(phase);
  }
  return all;
}

/// The same for all replicas.
double input_fraction(const std::vector<distribute::StepTimes>& replicas) {
  return replicas.front().fraction(comm::StepPhase::kInput);
}

Json evaluations_json(const std::map<std::int64_t, train::EvaluationResult>& evaluations) {
  Json all = Json::array();
  for (const auto& [step, result] : evaluations) all.push_back(evaluation_json(step, result));
  return all;
}

/// Of training with parameter servers.
void add_servers(Json& json, const StrategyFlags& flags) {
  const bool is_sync = flags.servers.mode_name() == "sync";
  json["mode"] = flags.servers.mode_name();
  json["staleness"] = number_or_null(flags.servers.staleness);
  json["staleness_aware_rate"] = is_sync ? Json(nullptr) : Json(flags.servers.staleness_aware_rate);
  json["backup_workers"] = is_sync ? Json(flags.servers.backup_workers.value_or(0)) : Json(nullptr);
  const auto& partitioner = flags.servers.variable_partitioner;
  json["variable_partitioner"] = partitioner ? Json(*partitioner) : Json(nullptr);
}

}  // namespace

Json staleness_json(const std::optional<distribute::UpdateStaleness>& staleness) {
  if (!staleness) return nullptr;
  return {{"updates", staleness->total()}, {"mean", staleness->mean()}, {"max", staleness->max()}};
}

Json training_configuration(const TrainFlags& flags, const Prepared& prepared) {
  const optim::Hyperparameters rates = prepared.rule->defaults();
  Json json;
  flags.model.describe(json);
  json["dataset"] = flags.data.dataset;
  json["data_dir"] = flags.data.data_dir.empty()
                         ? Json(nullptr)
                         : Json(std::filesystem::absolute(flags.data.data_dir).string());
  json["train_examples"] = number_or_null(flags.data.train_examples);
  flags.data.describe(json, prepared.image);
  json["strategy"] = prepared.strategy->name();
  json["replicas"] = prepared.strategy->num_replicas_in_sync();
  json["workers"] = prepared.strategy->num_workers();
  if (has_servers(flags.strategy)) add_servers(json, flags.strategy);
  json["devices"] = device_names(*prepared.strategy);
  json["threads_per_replica"] = flags.strategy.threads_per_replica;
  if (flags.strategy.logical_replicas > 0)
    json["logical_replicas"] = flags.strategy.logical_replicas;
  if (has_stages(flags.strategy)) {
    json["micro_batches"] = prepared.strategy->num_replicas_in_sync();
    json["pipeline_schedule"] = flags.strategy.stages.schedule_name();
    json["pipeline_replicas"] = flags.strategy.stages.num_replicas();
  }
  json["controller"] = has_controller(flags.strategy)
                           ? Json(prepared.strategy->parameter_device().name.to_string())
                           : Json(nullptr);
  json["precision"] = flags.strategy.precision;
  json["numerics"] = flags.strategy.numerics;
  json["global_batch_size"] = prepared.global_batch;
  json["accumulate"] = flags.accumulate;
  json["optimizer"] = prepared.rule->name();
  json["learning_rate"] = rates.learning_rate;
  json["weight_decay"] = rates.weight_decay;
  const io::StateTree rule = prepared.rule->config();
  json["momentum"] = rule.has("momentum") ? rule.as_double("momentum") : 0.0;
  json["no_decay"] = number_or_null(flags.optimizer.no_decay);
  flags.schedule.describe(json);
  flags.step.describe(json);
  flags.fine_tuning.describe(json);
  flags.pipeline.describe(json);
  json["seed"] = flags.strategy.seed;
  json["started_from"] =
      prepared.started_from.empty() ? Json(nullptr) : Json(prepared.started_from);
  return json;
}

Json training_result_json(const TrainingResult& result,
                          const std::optional<train::EvaluationResult>& evaluation,
                          const std::map<std::int64_t, train::EvaluationResult>& evaluations,
                          const std::string& weights_sha256) {
  Json json;
  json["steps"] = result.steps;
  json["first_step"] = result.first_step;
  json["examples"] = result.examples;
  json["examples_per_second"] = result.examples_per_second;
  json["warmup_steps"] = result.warmup_steps;
  json["examples_per_second_total"] = result.examples_per_second_total;
  json["seconds"] = result.seconds;
  json["step_shares"] = step_breakdown_json(result.step_times);
  json["final_loss"] = number_or_null(result.final_loss);
  json["eval_accuracy"] = evaluation ? Json(evaluation->accuracy) : Json(nullptr);
  json["eval_top_5_accuracy"] = evaluation ? Json(evaluation->top_5_accuracy) : Json(nullptr);
  json["eval_loss"] = evaluation ? Json(evaluation->loss) : Json(nullptr);
  json["eval_examples"] = evaluation ? evaluation->examples : 0;
  json["evaluations"] = evaluations_json(evaluations);
  json["weights_sha256"] = weights_sha256;
  json["peak_memory_bytes"] = machine::process_memory().peak;
  json["tuning"] = tuning::report().describe();
  json["interrupted"] = result.signal.has_value();
  json["signal"] = result.signal ? Json(signal_name(*result.signal)) : Json(nullptr);
  return json;
}

std::string run_json(const Json& configuration, const Json& result,
                     std::optional<std::int64_t> total_steps) {
  Json run;
  run["format"] = 1;
  run["total_steps"] = number_or_null(total_steps);
  run["machine"] = machine_facts();
  run["configuration"] = configuration;
  run["result"] = result;
  return run.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string training_summary(const Json& result) {
  std::string text =
      base::str_cat("steps            ", result["steps"].get<std::int64_t>(), "\nexamples/s       ",
                    fixed(result["examples_per_second"].get<double>(), 0), "\n");
  if (!result["final_loss"].is_null()) {
    text += base::str_cat("final loss       ", fixed(result["final_loss"].get<double>(), 4), "\n");
  }
  if (!result["eval_accuracy"].is_null()) {
    text +=
        evaluation_text(result["eval_accuracy"].get<double>(), result["eval_loss"].get<double>());
  }
  const Json& sha256 = result["weights_sha256"];
  if (sha256.is_null()) return text;  // a worker's copy, which is between two updates
  return text + base::str_cat("weights sha256   ", sha256.get<std::string>(), "\n");
}

void announce_training(std::ostream& log, const TrainFlags& flags, const Prepared& prepared) {
  log << base::str_cat("training ", flags.model.model, " on ", flags.data.dataset, ", ",
                       prepared.strategy->name(), " on ",
                       base::join(device_names(*prepared.strategy), " "), ", ",
                       steps_in_all(flags, prepared).value_or(0), " steps of ",
                       prepared.global_batch, " examples\n");
}

void report_interrupted(std::ostream& log, const TrainingResult& result,
                        std::optional<std::int64_t> total_steps, const Prepared& prepared) {
  log << "brigade: stopped by " << signal_name(*result.signal) << " after step " << result.steps;
  if (total_steps) log << " of " << *total_steps;
  if (prepared.directory) {
    log << "; the weights are saved in " << base::printable(prepared.directory->path().string())
        << std::endl;
  } else {
    log << "; without --model-dir the weights are dropped" << std::endl;
  }
}

void report_finished(std::ostream& log, const Json& result, const Prepared& prepared) {
  log << "brigade: the run in " << base::printable(prepared.directory->path().string())
      << " is finished, after step " << result["steps"].get<std::int64_t>()
      << "; resume it with more --steps or --epochs, or start over with --overwrite" << std::endl;
}

void report_step_breakdown(std::ostream& log, const TrainingResult& result) {
  const std::string breakdown = distribute::describe_step_breakdown(result.step_times);
  if (breakdown.empty()) return;
  log << breakdown << std::endl;
  const double input = input_fraction(result.step_times);
  if (input < kReportedInputFraction) return;
  log << "brigade: replicas wait for input for " << fixed(100 * input, 0)
      << " % of a step; `brigade data stats` with the same flags shows the bottleneck of the input"
      << std::endl;
}

void warn_of_divergence(std::ostream& log, const TrainingResult& result) {
  if (!result.final_loss || std::isfinite(*result.final_loss)) return;
  log << "brigade: warning: the loss is not finite; lower --learning-rate" << std::endl;
}

}  // namespace brigade::command
