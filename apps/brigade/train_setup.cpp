#include "apps/brigade/train_setup.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/brigade/exit_code.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/weights_hash.h"
#include "brigade/distribute/worker_group.h"

namespace brigade::command {
namespace {

io::Path normal_path(const io::Path& path) {
  std::error_code error;
  const io::Path found = std::filesystem::weakly_canonical(path, error);
  return error ? std::filesystem::absolute(path) : found;
}

bool is_inside(const io::Path& folder, const io::Path& path) {
  const auto ends = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return ends.first == folder.end();
}

/// With parameter servers, workers come and go while the chief's run is in the directory.
bool writes_directory(const TrainFlags& flags) {
  return !has_servers(flags.strategy) || flags.strategy.cluster.resolve().is_chief();
}

std::string started_from(const CheckpointFlags& flags, const Prepared& prepared) {
  if (const auto path = flags.resume_path()) {
    const io::Path from = normal_path(*path);
    if (flags.overwrite && !flags.model_dir.empty() &&
        is_inside(normal_path(flags.model_dir), from)) {
      throw UsageError(
          "--resume ", flags.resume,
          " is in the model directory that --overwrite clears; choose another --model-dir");
    }
    return from.string();
  }
  if (!prepared.directory || flags.overwrite) return "";
  const Json stored = prepared.directory->configuration();
  const bool is_known = stored.contains("started_from") && stored["started_from"].is_string();
  return is_known ? stored["started_from"].get<std::string>() : "";
}

// A run that has its own checkpoints resumes from them, so that the same command can be repeated.
std::optional<io::Path> resume_from(const CheckpointFlags& flags, const Prepared& prepared) {
  if (prepared.started_from.empty()) return std::nullopt;
  const auto files = io::posix_file_system();
  const bool may_have_own = prepared.directory && !flags.overwrite;
  if (may_have_own &&
      checkpoint::find_latest_complete(files, checkpoints_in(flags.model_dir)).checkpoint) {
    return std::nullopt;
  }
  return complete_checkpoint(files, prepared.started_from);
}

// Reads manifests only, which is quick. Also finds a checkpoint of a newer format, before anything
// is written next to it.
bool has_own_beyond(const io::Path& checkpoints, std::int64_t step) {
  const auto files = io::posix_file_system();
  const auto newest = checkpoint::latest_checkpoint(*files, checkpoints);
  return newest && checkpoint::Checkpoint::open(files, *newest).step() > step;
}

[[noreturn]] void refuse_to_end_before(const checkpoint::Checkpoint& begin, std::int64_t steps) {
  throw UsageError("the training resumes from ", begin.path(), " after step ", begin.step(),
                   ", and --steps is ", steps,
                   " in all; give more steps, or start from an earlier checkpoint");
}

void check_steps_left(const TrainFlags& flags, const Prepared& prepared) {
  const auto files = io::posix_file_system();
  const std::int64_t steps = flags.steps.value_or(std::numeric_limits<std::int64_t>::max());
  if (prepared.resume_from) {
    const auto begin = checkpoint::Checkpoint::open(files, *prepared.resume_from);
    if (begin.step() > steps) refuse_to_end_before(begin, steps);
  }
  if (!prepared.directory || flags.checkpoints.overwrite) return;
  // Workers that share no collectives may make more updates than were asked for.
  if (has_servers(flags.strategy)) return;
  const io::Path own = checkpoints_in(flags.checkpoints.model_dir);
  // A run with a result is refused later, by a message that says how long it was.
  if (!has_own_beyond(own, steps) || prepared.directory->has_result()) return;
  const auto newest = checkpoint::find_latest_complete(files, own).checkpoint;
  if (newest && newest->step() > steps) refuse_to_end_before(*newest, steps);
}

/// A job is in progress on the parameter servers, at `step`: throws UsageError if a new one was to
/// begin.
void check_continues(const TrainFlags& flags, const Prepared& prepared, std::int64_t step) {
  const bool is_new = flags.checkpoints.overwrite || prepared.resume_from;
  if (!is_new || is_restarted_by_launcher()) return;
  const std::string flag = flags.checkpoints.overwrite
                               ? "--overwrite"
                               : base::str_cat("--resume ", flags.checkpoints.resume);
  throw UsageError(
      "the parameter servers have the variables of a job in progress, at step ", step, ", and ",
      flag, " begins a new one; to continue that job leave out ", flag,
      "; to begin a new one, start the servers again with --overwrite, or with other folders");
}

// The number of examples that another run was trained on; 0 if its checkpoint does not say.
std::int64_t examples_trained(const io::Path& path) {
  const io::StateTree state = checkpoint::Checkpoint::open(io::posix_file_system(), path).state();
  constexpr const char* kPart = "part/examples";
  return state.has("parts") && state.at("parts").has(kPart) ? state.at("parts").at(kPart).as_int64()
                                                            : 0;
}

void check_examples_left(const Prepared& prepared) {
  if (!prepared.resume_from || !prepared.length || prepared.length->unit != "examples") return;
  const std::int64_t trained = examples_trained(*prepared.resume_from);
  if (trained <= prepared.length->count) return;
  throw UsageError("the training resumes from ", *prepared.resume_from, " after ", trained,
                   " examples, and --epochs asks for ", prepared.length->count,
                   " in all; give more epochs, or start from an earlier checkpoint");
}

constexpr std::int64_t kComparedExamples = 1024;

// Reading a whole dataset again takes too long; datasets that differ usually differ at the start.
std::string sha256_of_first(const data::Dataset<input::LabeledExample>& examples) {
  auto batches = examples.take(kComparedExamples).batch(kComparedExamples).iterator();
  const auto first = batches.next();
  if (!first) return "none";
  return checkpoint::weights_sha256(std::vector<checkpoint::NamedTensor>{
      {"features", first->features}, {"labels", first->labels}});
}

/// Workers without collectives share the steps of the job, so that none waits for the data of
/// another, or of one that died.
bool shares_steps(const Prepared& prepared) {
  return prepared.strategy->num_workers() > 1 && !prepared.strategy->has_worker_collectives();
}

/// The batches of which the workers together make one step.
std::int64_t batches_in_step(const TrainFlags& flags, const Prepared& prepared) {
  if (flags.strategy.servers.mode_name() != "sync") return flags.accumulate;
  const std::int64_t aggregated =
      prepared.strategy->num_workers() - flags.strategy.servers.backup_workers.value_or(0);
  return flags.accumulate * aggregated;
}

std::optional<std::int64_t> last_step(const TrainFlags& flags, const Prepared& prepared,
                                      std::int64_t examples_in_pass) {
  if (flags.steps || !shares_steps(prepared)) return flags.steps;
  if (examples_in_pass < 0) {
    throw UsageError("the number of examples is not known in advance; give --steps");
  }
  const std::int64_t in_step = prepared.global_batch * batches_in_step(flags, prepared);
  const std::int64_t examples = examples_in_pass * flags.epochs.value_or(1);
  return std::max<std::int64_t>(1, (examples + in_step - 1) / in_step);
}

std::optional<Length> length(const TrainFlags& flags, const Prepared& prepared,
                             std::int64_t examples_in_pass) {
  if (prepared.steps) return Length{.unit = "steps", .count = *prepared.steps};
  if (examples_in_pass < 0) return std::nullopt;
  return Length{.unit = "examples", .count = examples_in_pass * flags.epochs.value_or(1)};
}

/// The updates of the training, as far as their numbers are known.
ScheduleFlags::Steps steps_of_schedule(const TrainFlags& flags, const Prepared& prepared,
                                       std::int64_t examples_in_pass) {
  const std::int64_t in_step = prepared.global_batch * batches_in_step(flags, prepared);
  const auto steps_of = [&](std::int64_t examples) { return (examples + in_step - 1) / in_step; };
  ScheduleFlags::Steps steps;
  if (examples_in_pass > 0) steps.in_epoch = steps_of(examples_in_pass);
  if (prepared.steps)
    steps.total = prepared.steps;
  else if (prepared.length)
    steps.total = steps_of(prepared.length->count);
  return steps;
}

void check_profile(const TrainFlags& flags, const Prepared& prepared) {
  const auto steps = flags.watch.profiled();
  const auto last = steps_in_all(flags, prepared);
  if (!steps || !last || steps->first <= *last) return;
  throw UsageError("--profile-steps begins with step ", steps->first,
                   ", but the training ends with step ", *last);
}

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
  facts.push_back({"--auto-shard", flags.auto_shard});
  facts.push_back({"--model-dir", flags.checkpoints.model_dir.empty() ? "none" : "given"});
  facts.push_back({"--save-every", text_of(flags.checkpoints.save_every)});
  facts.push_back({"--summaries-every", text_of(flags.watch.summaries_every)});
  facts.push_back({"--eval", flags.watch.eval});
  facts.push_back({"--eval-every", text_of(flags.watch.eval_every)});
}

}  // namespace

Prepared prepare(const TrainFlags& flags,
                 const std::optional<data::Dataset<input::LabeledExample>>& given) {
  flags.check();
  const std::string& model_dir = flags.checkpoints.model_dir;
  Prepared prepared;
  prepared.rule = flags.optimizer.rule();
  prepared.image = flags.data.image_input(flags.model.model);
  if (!model_dir.empty()) {
    prepared.directory.emplace(io::posix_file_system(), model_dir);
    if (writes_directory(flags)) prepared.directory->check(flags.checkpoints.existing_run());
  }
  prepared.started_from = started_from(flags.checkpoints, prepared);
  prepared.resume_from = resume_from(flags.checkpoints, prepared);
  check_steps_left(flags, prepared);
  ServerAccess access = prepared.access;
  access.on_job_in_progress = [&](std::int64_t step) {
    check_continues(flags, prepared, step);
    prepared.is_in_progress = true;
  };
  prepared.strategy = flags.strategy.make(access);
  if (const auto* pipeline = pipeline_of(*prepared.strategy)) {
    flags.strategy.stages.check_layers(flags.model.model, flags.model.layers(prepared.image),
                                       pipeline->num_stages());
  }
  prepared.global_batch = flags.batch.global_size(prepared.strategy->num_replicas_in_sync());
  if (prepared.strategy->has_worker_collectives())
    prepared.data_sha256 = sha256_of_first(flags.data.load(input::Split::kTrain, prepared.image));
  // Of examples that are given somebody else has made floats.
  if (!given) prepared.image.output = image_output(flags.data, flags.pipeline, *prepared.strategy);
  prepared.normalizer = make_normalizer(flags.data, prepared.image);
  if (flags.watch.evaluates_at_end() || !flags.watch.evaluations().is_never()) {
    prepared.test =
        flags.data.load(input::Split::kTest, prepared.image).batch(prepared.global_batch);
  }
  const auto examples = given ? *given : flags.pipeline.load(flags.data, prepared.image);
  prepared.examples_in_pass = examples.cardinality();
  prepared.steps = last_step(flags, prepared, examples.cardinality());
  prepared.length = length(flags, prepared, examples.cardinality());
  check_examples_left(prepared);
  prepared.schedule = flags.schedule.make(
      prepared.rule->defaults().learning_rate, prepared.global_batch * flags.accumulate,
      steps_of_schedule(flags, prepared, examples.cardinality()));
  const std::int64_t passes = prepared.steps ? data::kForever : flags.epochs.value_or(1);
  const auto batches = examples.repeat(passes).batch(prepared.global_batch);
  prepared.train = flags.pipeline.mix(batches, prepared.image).prefetch(data::kAutotune);
  check_profile(flags, prepared);
  return prepared;
}

std::optional<std::int64_t> steps_in_all(const TrainFlags& flags, const Prepared& prepared) {
  if (prepared.steps) return prepared.steps;
  const std::int64_t known = prepared.train->cardinality();
  if (known < 0) return std::nullopt;
  return (known + flags.accumulate - 1) / flags.accumulate;
}

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
