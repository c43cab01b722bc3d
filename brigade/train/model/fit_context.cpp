#include "brigade/train/model/fit_context.h"

#include <utility>

#include "brigade/base/strings.h"

namespace brigade::train {

void FitContext::add_checkpointable(Checkpointable checkpointable) {
  const int before = checkpointable_names_[checkpointable.name]++;
  checkpointable.name =
      before == 0 ? base::str_cat("callback/", checkpointable.name)
                  : base::str_cat("callback/", checkpointable.name, "_", std::to_string(before));
  checkpointable.missing = checkpoint::Missing::kSkip;
  state_.add(std::move(checkpointable));
}

}  // namespace brigade::train
