#include "brigade/train/callbacks/history.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::train {

void History::add(std::int64_t epoch, const Logs& epoch_logs) {
  epochs.push_back(epoch);
  for (const auto& [name, value] : epoch_logs) logs[name].push_back(value);
}

const std::vector<double>& History::at(std::string_view name) const {
  const auto found = logs.find(std::string(name));
  if (found != logs.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, values] : logs) names.push_back(known);
  throw Error(ErrorCode::kNotFound, "No epoch has a metric called '", name,
              "'. Metrics: ", base::join(names, ", "), ".");
}

}  // namespace brigade::train
