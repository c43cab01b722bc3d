#include "apps/brigade/worker_options.h"

#include <nlohmann/json.hpp>
#include <set>

#include "brigade/base/strings.h"
#include "brigade/distribute/worker_agreement.h"

namespace brigade::command {
namespace {

std::string text_of(const std::optional<std::int64_t>& value) {
  return value ? base::str_cat(*value) : "unset";
}

std::string text_of(const std::optional<std::string>& value) {
  return value.value_or("unset");
}

void add_configuration(comm::Facts& facts, const Json& configuration) {
  // These may differ, or the strategy has compared them; the initial checkpoint is added below.
  static const std::set<std::string> kMayDiffer = {"devices", "data_dir", "threads_per_replica",
                                                   "controller", "started_from"};
  for (const auto& [key, value] : configuration.items()) {
    if (kMayDiffer.contains(key)) continue;
    facts.push_back({key, value.is_string() ? value.get<std::string>() : value.dump()});
  }
}

void add_course(comm::Facts& facts, const TrainFlags& flags, const Prepared& prepared) {
  facts.push_back({"steps", text_of(flags.steps)});
  facts.push_back({"epochs", text_of(flags.epochs)});
  facts.push_back(
      {"examples", prepared.length ? base::str_cat(prepared.length->count) : "unknown"});
  facts.push_back({"sha256 of the first examples", prepared.data_sha256});
  facts.push_back(
      {"checkpoint to begin with", prepared.resume_from ? prepared.resume_from->string() : "none"});
}

/// What all workers do together during the training.
void add_watching(comm::Facts& facts, const TrainFlags& flags) {
  facts.push_back({"--model-dir", flags.checkpoints.model_dir.empty() ? "none" : "given"});
  facts.push_back({"--save-every", text_of(flags.checkpoints.save_every)});
  facts.push_back({"--summaries-every", text_of(flags.watch.summaries_every)});
  facts.push_back({"--eval", flags.watch.eval});
  facts.push_back({"--eval-every", text_of(flags.watch.eval_every)});
}

}  // namespace

void check_same_training(const TrainFlags& flags, const Prepared& prepared,
                         const Json& configuration) {
  comm::Facts facts = {{"version", BRIGADE_VERSION}};
  add_configuration(facts, configuration);
  add_course(facts, flags, prepared);
  add_watching(facts, flags);
  distribute::check_agreement(
      prepared.strategy->workers(), facts,
      {.what = "trainings", .advice = "start every worker with the same flags and data"});
}

void check_same_weights(const distribute::Strategy& strategy, const std::string& weights_sha256) {
  distribute::check_agreement(
      strategy.workers(), {{"weights_sha256", weights_sha256}},
      {.what = "weights", .advice = "run the same program on the same kind of machine everywhere"});
}

}  // namespace brigade::command
