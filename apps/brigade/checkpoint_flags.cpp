#include "apps/brigade/checkpoint_flags.h"

#include <CLI/CLI.hpp>

#include "apps/brigade/data_flags.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/interval_flag.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::command {

namespace {

constexpr const char* kCheckpointGroup = "Model directory";
constexpr const char* kSaveEvery = "10m";
constexpr std::int64_t kKeepLast = 5;

}  // namespace

void CheckpointFlags::add_to(CLI::App& app) {
  app.add_option("--model-dir", model_dir,
                 "Folder for checkpoints, event files, run.json and weights.safetensors. Without "
                 "it the weights are dropped")
      ->group(kCheckpointGroup);
  add_interval(app, "--save-every", save_every,
               base::str_cat("Save a checkpoint every 500steps, 100s, or both as 100s,500steps; "
                             "also at the start and the end (default ",
                             kSaveEvery, ")"))
      ->group(kCheckpointGroup);
  app.add_option("--keep-last", keep_last,
                 base::str_cat("How many of the newest checkpoints to keep; 0: all (default ",
                               kKeepLast, ")"))
      ->group(kCheckpointGroup);
  app.add_option("--checkpoint-writers", writers,
                 "Which of several workers write checkpoints: the chief, or all, each one shard, "
                 "into a --model-dir that all of them see (default chief)")
      ->option_text("chief|all")
      ->group(kCheckpointGroup);
  app.add_option("--resume", resume,
                 "auto: resume the run in the model directory, if there is one; never: refuse "
                 "it; PATH: start from that checkpoint, or the newest of that model directory")
      ->capture_default_str()
      ->option_text("auto|never|PATH")
      ->group(kCheckpointGroup);
  app.add_flag("--overwrite", overwrite, "Replace the run in the model directory")
      ->group(kCheckpointGroup);
}

void CheckpointFlags::check() const {
  if (save_every) parse_interval("--save-every", *save_every, Never::kRefused);
  if (keep_last) check_at_least("--keep-last", *keep_last, 0);
  if (writers && *writers != "chief" && *writers != "all") {
    throw UsageError(
        base::str_cat("--checkpoint-writers is ", base::quoted(*writers), "; give chief or all"));
  }
  if (resume.empty()) {
    throw UsageError("--resume is ''; give auto, never, or the path of a checkpoint");
  }
  if (!model_dir.empty()) return;
  if (save_every) throw UsageError("--save-every needs --model-dir, the folder for checkpoints");
  if (keep_last) throw UsageError("--keep-last needs --model-dir, the folder for checkpoints");
  if (writers)
    throw UsageError("--checkpoint-writers needs --model-dir, the folder for checkpoints");
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

}  // namespace brigade::command
