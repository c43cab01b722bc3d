#include "apps/brigade/train_flags.h"

#include <CLI/CLI.hpp>

#include "apps/brigade/exit_code.h"
#include "brigade/base/strings.h"

namespace brigade::command {

void TrainFlags::add_to(CLI::App& app) {
  model.add_to(app);
  data.add_to(app);
  pipeline.add_to(app);
  strategy.add_to(app);
  optimizer.add_to(app);
  batch.add_to(app);
  app.add_option("--epochs", epochs, "Passes over the training examples (default 1)")
      ->group("Steps");
  app.add_option("--steps", steps, "Steps, over as many passes as they need")->group("Steps");
  app.add_option("--accumulate", accumulate,
                 "Batches whose gradients are gathered for one step: as one batch so many times as "
                 "large")
      ->capture_default_str()
      ->group("Steps");
  app.add_option(
         "--model-dir", model_dir,
         "Folder for checkpoints, weights.safetensors, run.json and event files; a run in it "
         "that did not finish is gone on with. Without it the weights are dropped")
      ->group("Output");
  app.add_flag("--resume", resume, "Go on with a finished run too, for more steps or epochs")
      ->group("Output");
  app.add_flag("--overwrite", overwrite, "Replace the run that the model directory holds")
      ->group("Output");
  checkpoints.add_to(app);
  app.add_option("--eval", eval, "Evaluate on the test split: end, none")
      ->capture_default_str()
      ->group("Output");
  app.add_option("--log-every", log_every, "Seconds between progress reports on standard error")
      ->group("Output");
  app.add_flag("--json", json, "Write one JSON object to standard output")->group("Output");
}

void TrainFlags::check() const {
  model.options();
  data.check();
  pipeline.check();
  batch.check();
  if (epochs && steps) throw UsageError("--epochs and --steps exclude each other");
  if (epochs) check_at_least("--epochs", *epochs, 1);
  if (steps) check_at_least("--steps", *steps, 1);
  check_at_least("--accumulate", accumulate, 1);
  checkpoints.check();
  if (resume && overwrite) throw UsageError("--resume and --overwrite exclude each other");
  check_choice("value of --eval", eval, {"end", "none"});
  if (log_every && !(*log_every >= 0.0 && *log_every <= 1e6)) {
    throw UsageError(base::str_cat("--log-every is ", *log_every, "; give seconds, 0 to 1000000"));
  }
}

HeldRun TrainFlags::held_run() const {
  if (overwrite) return HeldRun::kReplace;
  return resume ? HeldRun::kGoOnFinished : HeldRun::kGoOn;
}

}  // namespace brigade::command
