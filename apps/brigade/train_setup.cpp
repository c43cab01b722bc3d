#include "apps/brigade/train_setup.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/brigade/exit_code.h"
#include "apps/brigade/whole_checkpoint.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/checkpoint.h"

namespace brigade::command {
namespace {

io::Path normal_path(const io::Path& path) {
  std::error_code error;
  const io::Path found = std::filesystem::weakly_canonical(path, error);
  return error ? std::filesystem::absolute(path) : found;
}

bool lies_in(const io::Path& folder, const io::Path& path) {
  const auto ends = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return ends.first == folder.end();
}

std::string started_from(const CheckpointFlags& flags, const Prepared& prepared) {
  if (const auto path = flags.resume_path()) {
    const io::Path from = normal_path(*path);
    if (flags.overwrite && !flags.model_dir.empty() &&
        lies_in(normal_path(flags.model_dir), from)) {
      throw UsageError(base::str_cat("--resume ", flags.resume,
                                     " lies in the model directory that --overwrite clears; "
                                     "choose another --model-dir"));
    }
    return from.string();
  }
  if (!prepared.directory || flags.overwrite) return "";
  const Json held = prepared.directory->configuration();
  const bool is_known = held.contains("started_from") && held["started_from"].is_string();
  return is_known ? held["started_from"].get<std::string>() : "";
}

// A run that has checkpoints of its own goes on from them, so that the same command again does.
std::optional<io::Path> resume_from(const CheckpointFlags& flags, const Prepared& prepared) {
  if (prepared.started_from.empty()) return std::nullopt;
  const auto files = io::posix_file_system();
  const bool may_have_own = prepared.directory && !flags.overwrite;
  if (may_have_own &&
      checkpoint::find_latest_whole(files, checkpoints_in(flags.model_dir)).checkpoint) {
    return std::nullopt;
  }
  return whole_checkpoint(files, prepared.started_from);
}

std::optional<Length> length(const TrainFlags& flags, std::int64_t examples_in_pass) {
  if (flags.steps) return Length{.unit = "steps", .count = *flags.steps};
  if (examples_in_pass < 0) return std::nullopt;
  return Length{.unit = "examples", .count = examples_in_pass * flags.epochs.value_or(1)};
}

void check_profile(const TrainFlags& flags, const Prepared& prepared) {
  const auto steps = flags.watch.profiled();
  const auto last = steps_in_all(flags, prepared);
  if (!steps || !last || steps->first <= *last) return;
  throw UsageError(base::str_cat("--profile-steps begins with step ", steps->first,
                                 ", but the training ends with step ", *last));
}

}  // namespace

Prepared prepare(const TrainFlags& flags) {
  flags.check();
  const std::string& model_dir = flags.checkpoints.model_dir;
  Prepared prepared;
  prepared.rule = flags.optimizer.rule();
  if (!model_dir.empty()) {
    prepared.directory.emplace(io::posix_file_system(), model_dir);
    prepared.directory->check(flags.checkpoints.held_run());
  }
  prepared.started_from = started_from(flags.checkpoints, prepared);
  prepared.resume_from = resume_from(flags.checkpoints, prepared);
  prepared.strategy = flags.strategy.make();
  prepared.global_batch = flags.batch.global_size(prepared.strategy->num_replicas_in_sync());
  if (flags.watch.evaluates_at_end() || !flags.watch.evaluations().is_never()) {
    prepared.test = flags.data.load(input::Split::kTest).batch(prepared.global_batch);
  }
  const auto examples = flags.pipeline.apply(flags.data.load(input::Split::kTrain));
  prepared.length = length(flags, examples.cardinality());
  const std::int64_t passes = flags.steps ? data::kForever : flags.epochs.value_or(1);
  prepared.train = examples.repeat(passes).batch(prepared.global_batch).prefetch(data::kAutotune);
  check_profile(flags, prepared);
  return prepared;
}

std::optional<std::int64_t> steps_in_all(const TrainFlags& flags, const Prepared& prepared) {
  if (flags.steps) return flags.steps;
  const std::int64_t known = prepared.train->cardinality();
  if (known < 0) return std::nullopt;
  return (known + flags.accumulate - 1) / flags.accumulate;
}

}  // namespace brigade::command
