#include "brigade/train/graph/number_summaries.h"

#include <string>
#include <vector>

namespace brigade::train {

void write_numbers(summary::SummaryWriter& summaries, std::int64_t step, const StepValues& values) {
  const std::vector<std::string> names = values.names();
  std::vector<summary::TaggedScalar> scalars;
  for (const std::string& name : names) {
    if (values.tensor(name).numel() == 1) scalars.push_back({name, values.number(name)});
  }
  if (!scalars.empty()) summaries.scalars(scalars, step);
}

}  // namespace brigade::train
