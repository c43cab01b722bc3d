#include "apps/brigade/step_flags.h"

#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/json_values.h"

namespace brigade::command {

void StepFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Optimizer");
  group.add("--label-smoothing", label_smoothing,
            "Part of each label that is spread over all classes, from 0 to below 1");
  group.add("--clip-norm", clip_norm,
            "Gradients are scaled down to this norm, all variables together");
  group.add("--ema", ema,
            "Decay of moving averages of the weights, such as 0.9999: they are evaluated and saved "
            "in weights.safetensors");
}

void StepFlags::check() const {
  if (!(label_smoothing >= 0.0 && label_smoothing < 1.0)) {
    throw UsageError("--label-smoothing is ", label_smoothing, "; it must be in [0, 1)");
  }
  if (clip_norm && !(*clip_norm > 0.0 && *clip_norm < 1e30))
    throw UsageError("--clip-norm is ", *clip_norm, "; it must be above 0");
  if (ema && !(*ema > 0.0 && *ema < 1.0))
    throw UsageError("--ema is ", *ema, "; it must be between 0 and 1");
}

void StepFlags::describe(Json& configuration) const {
  configuration["label_smoothing"] = label_smoothing;
  configuration["clip_norm"] = number_or_null(clip_norm);
  configuration["ema"] = number_or_null(ema);
}

}  // namespace brigade::command
