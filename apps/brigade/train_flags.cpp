#include "apps/brigade/train_flags.h"

#include <CLI/CLI.hpp>

#include "apps/brigade/exit_code.h"

namespace brigade::command {

void TrainFlags::add_to(CLI::App& app) {
  model.add_to(app);
  data.add_to(app);
  pipeline.add_to(app);
  strategy.add_to(app);
  optimizer.add_to(app);
  batch.add_to(app);
  app.add_option("--epochs", epochs, "Epochs: passes over the training examples (default 1)")
      ->group("Steps");
  app.add_option("--steps", steps, "Steps, over as many epochs as they need")->group("Steps");
  app.add_option("--accumulate", accumulate,
                 "Batches whose gradients are accumulated for one step, with the effect of one "
                 "batch so many times as large")
      ->capture_default_str()
      ->group("Steps");
  checkpoints.add_to(app);
  watch.add_to(app);
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
  watch.check(checkpoints.model_dir);
}

}  // namespace brigade::command
