#include "apps/brigade/checkpoint_flags.h"

#include <CLI/CLI.hpp>

#include "apps/brigade/data_flags.h"
#include "apps/brigade/exit_code.h"
#include "brigade/base/strings.h"

namespace brigade::command {

namespace {

constexpr std::chrono::seconds kUsualInterval{600};

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

}  // namespace

void CheckpointFlags::add_to(CLI::App& app) {
  app.add_option("--save-checkpoints-steps", save_steps, "Save every so many steps")
      ->group("Output");
  app.add_option("--save-checkpoints-secs", save_seconds,
                 "Save every so many seconds (default 600, unless steps are given)")
      ->group("Output");
  app.add_option("--keep-checkpoints", keep, "How many checkpoints stay")
      ->capture_default_str()
      ->group("Output");
  app.add_option("--summary-steps", summary_steps,
                 "Steps between the loss's points in TensorBoard; 0: no event files")
      ->capture_default_str()
      ->group("Output");
}

void CheckpointFlags::check() const {
  if (save_steps) check_at_least("--save-checkpoints-steps", *save_steps, 1);
  if (save_seconds && !(*save_seconds > 0.0 && *save_seconds <= 1e6)) {
    throw UsageError(base::str_cat("--save-checkpoints-secs is ", *save_seconds,
                                   "; give seconds, more than 0 and up to 1000000"));
  }
  check_at_least("--keep-checkpoints", keep, 1);
  check_at_least("--summary-steps", summary_steps, 0);
}

train::SessionOptions CheckpointFlags::session_options(const io::Path& model_dir) const {
  train::SessionOptions options{.save_checkpoints = {}, .save_summaries = {}, .log_step_count = {}};
  if (model_dir.empty()) return options;
  options.checkpoint_dir = model_dir / "checkpoints";
  options.scaffold.saver.keep_last = static_cast<int>(keep);
  options.save_checkpoints.steps = save_steps;
  if (save_seconds) options.save_checkpoints.time = milliseconds(*save_seconds);
  if (options.save_checkpoints.is_never()) options.save_checkpoints.time = kUsualInterval;
  if (summary_steps > 0) {
    options.summary_dir = model_dir;
    options.save_summaries.steps = summary_steps;
    options.log_step_count.steps = summary_steps;
  }
  return options;
}

}  // namespace brigade::command
