#include "apps/brigade/train_setup.h"

namespace brigade::command {

Prepared prepare(const TrainFlags& flags) {
  flags.check();
  Prepared prepared;
  prepared.rule = flags.optimizer.rule();
  if (!flags.model_dir.empty()) {
    prepared.directory.emplace(io::posix_file_system(), flags.model_dir);
    prepared.directory->check(flags.held_run());
  }
  prepared.strategy = flags.strategy.make();
  prepared.global_batch = flags.batch.global_size(prepared.strategy->num_replicas_in_sync());
  if (flags.eval == "end") {
    prepared.test = flags.data.load(input::Split::kTest).batch(prepared.global_batch);
  }
  const std::int64_t passes = flags.steps ? data::kForever : flags.epochs.value_or(1);
  prepared.train = flags.pipeline.apply(flags.data.load(input::Split::kTrain))
                       .repeat(passes)
                       .batch(prepared.global_batch)
                       .prefetch(data::kAutotune);
  return prepared;
}

std::optional<std::int64_t> steps_in_all(const TrainFlags& flags, const Prepared& prepared) {
  if (flags.steps) return flags.steps;
  const std::int64_t known = prepared.train->cardinality();
  if (known < 0) return std::nullopt;
  return (known + flags.accumulate - 1) / flags.accumulate;
}

}  // namespace brigade::command
