#include "brigade/train/model/fit_context.h"

#include <utility>

#include "brigade/base/strings.h"

namespace brigade::train {

void FitContext::add_checkpointable(Checkpointable part) {
  const int before = part_names_[part.name]++;
  part.name = before == 0 ? base::str_cat("callback/", part.name)
                          : base::str_cat("callback/", part.name, "_", std::to_string(before));
  part.missing = checkpoint::Missing::kSkip;
  state_.add(std::move(part));
}

}  // namespace brigade::train
