#include "brigade/optim/schedule.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/optim/cosine_decay.h"
#include "brigade/optim/decay.h"
#include "brigade/optim/warm_up.h"

namespace brigade::optim {

namespace {

using From = SchedulePtr (*)(const io::StateTree&);

template <class... Options>
constexpr std::array<std::pair<std::string_view, From>, sizeof...(Options)> table_of() {
  return {{{Options::kName, &Options::from}...}};
}

constexpr auto kTable = table_of<ConstantRate, StepDecay, ExponentialDecay, InverseTimeDecay,
                                 PolynomialDecay, PiecewiseConstantDecay, CosineDecay,
                                 CosineDecayRestarts, WarmUp, ScaledWithGlobalBatch>();

}  // namespace

SchedulePtr make_schedule(const io::StateTree& config) {
  const std::string& name = config.as_string("name");
  const auto* found = std::find_if(kTable.begin(), kTable.end(),
                                   [&](const auto& row) { return row.first == name; });
  if (found != kTable.end()) return found->second(config);
  std::vector<std::string> names;
  for (const auto& [known, from] : kTable) names.emplace_back(known);
  const auto nearest = base::nearest(name, names);
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("No schedule is called '", name, "'",
                            nearest ? base::str_cat("; did you mean '", *nearest, "'?") : ".",
                            " Schedules: ", base::join(names, ", "), "."));
}

}  // namespace brigade::optim
