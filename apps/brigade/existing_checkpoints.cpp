#include "apps/brigade/existing_checkpoints.h"

#include "apps/brigade/run_directory.h"
#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/checkpoint.h"
#include "brigade/train/session/training_state.h"

namespace brigade::command {
namespace {

[[noreturn]] void refuse_without_complete(const io::Path& model_dir, std::int64_t steps_made,
                                          const std::vector<checkpoint::BrokenCheckpoint>& broken) {
  const std::string why =
      broken.empty()
          ? base::str_cat("there is no checkpoint in ", checkpoints_in(model_dir))
          : base::str_cat("none of its checkpoints is complete (", broken.back().reason, ")");
  throw Error(
      ErrorCode::kDataLoss,
      base::str_cat("the run in the model directory ", model_dir, " cannot be resumed after its ",
                    steps_made > 0 ? base::str_cat(steps_made, " steps: ") : "steps: ", why,
                    "; put a complete one back, start from another run's checkpoint by "
                    "--resume PATH and another --model-dir, or start over with "
                    "--overwrite"));
}

}  // namespace

void check_can_resume(const std::shared_ptr<io::FileSystem>& files, const io::Path& model_dir,
                      std::int64_t steps_made, std::uint64_t seed) {
  const auto found = checkpoint::find_latest_whole(files, checkpoints_in(model_dir));
  if (!found.checkpoint) {
    if (steps_made == 0 && found.broken.empty()) return;
    refuse_without_complete(model_dir, steps_made, found.broken);
  }
  const std::optional<std::uint64_t> saved = train::saved_seed(*found.checkpoint);
  if (!saved || *saved == seed) return;
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("the checkpoint ", found.checkpoint->path(),
                            " belongs to another training: it was saved with seed ", *saved,
                            ", and the seed is ", seed,
                            "; put the run's own checkpoints back, choose another --model-dir, or "
                            "start over with --overwrite"));
}

}  // namespace brigade::command
