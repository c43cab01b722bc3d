#include "brigade/distribute/optimizer/loss_scale.h"

namespace brigade::distribute {

std::string_view to_string(LossScale scale) {
  switch (scale) {
    case LossScale::kMeanOverExamples:
      return "mean_over_examples";
    case LossScale::kSum:
      return "sum";
    case LossScale::kAlreadyScaled:
      return "already_scaled";
  }
  return "unknown";
}

}  // namespace brigade::distribute
