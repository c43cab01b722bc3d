#include "apps/brigade/checkpoint_flags.h"

#include <CLI/CLI.hpp>

#include "apps/brigade/data_flags.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/interval_flag.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::command {

namespace {

constexpr const char* kGroup = "Model directory";
constexpr const char* kSaveEvery = "10m";
constexpr std::int64_t kKeepLast = 5;

}  // namespace

void CheckpointFlags::add_to(CLI::App& app) {
  app.add_option("--model-dir", model_dir,
                 "Folder for checkpoints, event files, run.json and weights.safetensors. Without "
                 "it the weights are dropped")
      ->group(kGroup);
  add_interval(app, "--save-every", save_every,
               base::str_cat("Save a checkpoint every 500steps, 100s, or both as 100s,500steps; "
                             "also at the start and the end (default ",
                             kSaveEvery, ")"))
      ->group(kGroup);
  app.add_option(
         "--keep-last", keep_last,
         base::str_cat("How many of the newest checkpoints stay; 0: all (default ", kKeepLast, ")"))
      ->group(kGroup);
  app.add_option("--checkpoint-writers", writers,
                 "Which of several workers write checkpoints: the chief, or all, each its share, "
                 "into a --model-dir that all see (default chief)")
      ->option_text("chief|all")
      ->group(kGroup);
  app.add_option("--resume", resume,
                 "auto: go on with the run in the model directory, if there is one; never: refuse "
                 "it; PATH: begin with that checkpoint, or the newest of that model directory")
      ->capture_default_str()
      ->option_text("auto|never|PATH")
      ->group(kGroup);
  app.add_flag("--overwrite", overwrite, "Replace the run that the model directory holds")
      ->group(kGroup);
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
  if (save_every) throw UsageError("--save-every needs --model-dir, where checkpoints lie");
  if (keep_last) throw UsageError("--keep-last needs --model-dir, where checkpoints lie");
  if (writers) throw UsageError("--checkpoint-writers needs --model-dir, where checkpoints lie");
}

HeldRun CheckpointFlags::held_run() const {
  if (overwrite) return HeldRun::kReplace;
  return resume == "never" ? HeldRun::kRefuse : HeldRun::kGoOn;
}

std::optional<io::Path> CheckpointFlags::resume_path() const {
  if (resume == "auto" || resume == "never") return std::nullopt;
  return resume;
}

train::SessionOptions CheckpointFlags::session_options() const {
  train::SessionOptions options{.save_checkpoints = {}, .save_summaries = {}, .log_step_count = {}};
  if (model_dir.empty()) return options;
  options.checkpoint_dir = checkpoints_in(model_dir);
  // What may be there all the same is none of this run's.
  if (held_run() != HeldRun::kGoOn) options.resume = train::Resume::kNever;
  options.scaffold.saver.keep_last = static_cast<std::size_t>(keep_last.value_or(kKeepLast));
  if (writers == "all") options.scaffold.saver.writers = checkpoint::Writers::kAllWorkers;
  options.save_checkpoints =
      parse_interval("--save-every", save_every.value_or(kSaveEvery), Never::kRefused);
  return options;
}

}  // namespace brigade::command
