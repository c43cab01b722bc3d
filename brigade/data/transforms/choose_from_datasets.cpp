#include "brigade/data/transforms/choose_from_datasets.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/cardinality.h"

namespace brigade::data::internal {

std::optional<std::uint64_t> ChoiceSelector::select(const std::vector<bool>&) {
  const auto choice = choices_->next();
  if (!choice) return std::nullopt;
  if (*choice >= 0 && static_cast<std::uint64_t>(*choice) < inputs_) {
    return static_cast<std::uint64_t>(*choice);
  }
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("choose_from_datasets: a choice is dataset ", *choice,
                            "; they must be 0 to ", inputs_ - 1));
}

std::int64_t cardinality_of_choose(const std::vector<std::int64_t>& inputs, std::int64_t choices) {
  const auto is_endless = [](std::int64_t cardinality) { return cardinality == kInfinite; };
  const bool never_ends = std::all_of(inputs.begin(), inputs.end(), is_endless);
  return never_ends && is_endless(choices) ? kInfinite : kUnknown;
}

}  // namespace brigade::data::internal
