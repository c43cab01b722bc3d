#include "apps/brigade/train_flags.h"

#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/train/hooks/logging_hooks.h"
#include "brigade/train/hooks/memory_hook.h"

namespace brigade::command {
namespace {

constexpr const char* kSaveEvery = "10m";
constexpr std::int64_t kKeepLast = 5;

constexpr const char* kSummariesEvery = "100steps";

train::StepRange parse_steps(const std::string& text) {
  const std::vector<std::string> ends = base::split(text, ':');
  const auto first = base::parse_int(ends.front());
  const auto last = base::parse_int(ends.back());
  if (ends.size() == 2 && first && last && *first >= 1 && *last >= *first) {
    return {.first = *first, .last = *last};
  }
  throw UsageError("--profile-steps is ", base::quoted(text),
                   "; give the first and the last step, both included, such as 10:20; the first "
                   "step of a training is 1");
}

}  // namespace

void CheckpointFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Model directory");
  group.add("--model-dir", model_dir,
            "Folder for checkpoints, event files, run.json and weights.safetensors. Without it the "
            "weights are dropped");
  group.add_interval("--save-every", save_every,
                     base::str_cat("Save a checkpoint every 500steps, 100s, or both as "
                                   "100s,500steps; also at the start and the end (default ",
                                   kSaveEvery, ")"));
  group.add("--keep-last", keep_last,
            base::str_cat("How many of the newest checkpoints to keep; 0: all (default ", kKeepLast,
                          ")"));
  group
      .add("--checkpoint-writers", writers,
           "Which of several workers write checkpoints: the chief, or all, each one shard, into a "
           "--model-dir that all of them see (default chief)")
      ->option_text("chief|all");
  group
      .add("--resume", resume,
           "auto: resume the run in the model directory, if there is one; never: refuse it; PATH: "
           "start from that checkpoint, or the newest of that model directory")
      ->option_text("auto|never|PATH");
  group.add_switch("--overwrite", overwrite, "Replace the run in the model directory");
}

void CheckpointFlags::check() const {
  if (save_every) parse_interval("--save-every", *save_every, Never::kRefused);
  if (keep_last) check_at_least("--keep-last", *keep_last, 0);
  if (writers && *writers != "chief" && *writers != "all") {
    throw UsageError("--checkpoint-writers is ", base::quoted(*writers), "; give chief or all");
  }
  if (resume.empty()) {
    throw UsageError("--resume is ''; give auto, never, or the path of a checkpoint");
  }
  for (const auto& [flag, is_given] : {std::pair("--save-every", save_every.has_value()),
                                       std::pair("--keep-last", keep_last.has_value()),
                                       std::pair("--checkpoint-writers", writers.has_value())}) {
    if (!is_given || !model_dir.empty()) continue;
    throw UsageError(flag, " needs --model-dir, the folder for checkpoints");
  }
}

ExistingRun CheckpointFlags::existing_run() const {
  if (overwrite) return ExistingRun::kReplace;
  return resume == "never" ? ExistingRun::kRefuse : ExistingRun::kResume;
}

std::optional<io::Path> CheckpointFlags::resume_path() const {
  if (resume == "auto" || resume == "never") return std::nullopt;
  return resume;
}

train::SessionOptions CheckpointFlags::session_options() const {
  train::SessionOptions options{.save_checkpoints = {}, .save_summaries = {}, .log_step_count = {}};
  if (model_dir.empty()) return options;
  options.checkpoint_dir = checkpoints_in(model_dir);
  // Checkpoints that are there all the same do not belong to this run.
  if (existing_run() != ExistingRun::kResume) options.resume = train::Resume::kNever;
  options.scaffold.saver.keep_last = static_cast<std::size_t>(keep_last.value_or(kKeepLast));
  if (writers == "all") options.scaffold.saver.writers = checkpoint::Writers::kAllWorkers;
  options.save_checkpoints =
      parse_interval("--save-every", save_every.value_or(kSaveEvery), Never::kRefused);
  return options;
}

void WatchFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Watching");
  group.add_interval("--summaries-every", summaries_every,
                     base::str_cat("How often the loss and the speed are written for TensorBoard: "
                                   "100steps, 10s, both, or never (default ",
                                   kSummariesEvery, ")"));
  group
      .add(
          "--profile-steps", profile_steps,
          "Write a Chrome trace of these steps, both included, into the model directory's profile/")
      ->option_text("A:B");
  group.add_interval(
      "--eval-every", eval_every,
      "Evaluate on the test split every 500steps, 60s, or both, while training (default never)");
  group.add("--eval", eval, "Evaluate on the test split: end, none");
  group.add("--log-every", log_every, "Seconds between progress reports on standard error");
}

void WatchFlags::check(const std::string& model_dir) const {
  if (summaries_every) parse_interval("--summaries-every", *summaries_every, Never::kAllowed);
  profiled();
  evaluations();
  check_choice("value of --eval", eval, {"end", "none"});
  if (log_every && !(*log_every >= 0.0 && *log_every <= 1e6)) {
    throw UsageError("--log-every is ", *log_every, "; give seconds, 0 to 1000000");
  }
  if (!model_dir.empty()) return;
  if (summaries_every) {
    throw UsageError("--summaries-every needs --model-dir, the folder for event files");
  }
  if (profile_steps)
    throw UsageError("--profile-steps needs --model-dir, the folder for the profile");
}

train::Every WatchFlags::evaluations() const {
  return eval_every ? parse_interval("--eval-every", *eval_every, Never::kAllowed) : train::Every{};
}

std::optional<train::StepRange> WatchFlags::profiled() const {
  if (!profile_steps) return std::nullopt;
  return parse_steps(*profile_steps);
}

void WatchFlags::add_to(train::SessionOptions& options, const io::Path& model_dir) const {
  if (model_dir.empty()) return;
  const train::Every summaries = parse_interval(
      "--summaries-every", summaries_every.value_or(kSummariesEvery), Never::kAllowed);
  if (!summaries.is_never()) options.summary_dir = model_dir;
  options.save_summaries = summaries;
  options.log_step_count = summaries;
  if (summaries.is_never()) return;
  options.chief_only_hooks.push_back(train::StepBreakdownHook{.every = summaries, .logs = false});
  options.chief_only_hooks.push_back(train::MemoryHook{.every = summaries});
}

void WatchFlags::add_profile_to(train::SessionOptions& options, const io::Path& model_dir) const {
  const auto steps = profiled();
  if (model_dir.empty() || !steps) return;
  options.hooks.push_back(train::ProfilerHook{.directory = profile_in(model_dir), .steps = steps});
}

void TrainFlags::add_to(CLI::App& app) {
  FlagGroup(app)
      .add("--config", config,
           "File with flags, a line each (learning-rate = 0.1); those of the command line count "
           "more. The project's configs/ has the usual ones for ImageNet")
      ->option_text("FILE");
  model.add_to(app);
  data.add_to(app);
  data.add_normalize_to(app);
  pipeline.add_to(app);
  strategy.add_to(app);
  optimizer.add_to(app);
  schedule.add_to(app);
  step.add_to(app);
  fine_tuning.add_to(app);
  batch.add_to(app);
  FlagGroup group(app, "Steps");
  group.add("--epochs", epochs, "Epochs: passes over the training examples (default 1)");
  group.add("--steps", steps, "Steps, over as many epochs as they need");
  group.add("--accumulate", accumulate,
            "Batches whose gradients are accumulated for one step, with the effect of one batch so "
            "many times as large");
  group.add("--auto-shard", auto_shard,
            "How several workers divide the data: auto, file, data, hint, or off (each trains on "
            "all of it)");
  checkpoints.add_to(app);
  watch.add_to(app);
  output.add_to(app);
}

void TrainFlags::check() const {
  model.options();
  data.check();
  pipeline.check(data);
  batch.check();
  schedule.check();
  step.check();
  fine_tuning.check();
  if (epochs && steps) throw UsageError("--epochs and --steps exclude each other");
  if (epochs) check_at_least("--epochs", *epochs, 1);
  if (steps) check_at_least("--steps", *steps, 1);
  check_at_least("--accumulate", accumulate, 1);
  if (step.clip_norm && accumulate > 1) {
    throw UsageError(
        "--clip-norm and --accumulate exclude each other: the gradients of the accumulated batches "
        "would be clipped one by one");
  }
  if (has_servers(strategy) && step.ema) {
    throw UsageError(
        "--ema needs variables that change in this process; with --strategy parameter_server they "
        "are on the servers");
  }
  check_choice("value of --auto-shard", auto_shard, {"auto", "file", "data", "hint", "off"});
  checkpoints.check();
  if (has_servers(strategy) && checkpoints.writers == "all") {
    throw UsageError(
        "--checkpoint-writers all needs workers with collectives; with --strategy parameter_server "
        "the chief writes");
  }
  watch.check(checkpoints.model_dir);
}

}  // namespace brigade::command
