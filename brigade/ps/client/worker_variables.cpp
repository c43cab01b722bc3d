#include "brigade/ps/client/worker_variables.h"

#include <utility>

namespace brigade::ps {

WorkerVariables::WorkerVariables(PlacedVariables placed)
    : placed_(std::move(placed)), is_by_rows_(placed_.size(), false) {}

WorkerVariables::WorkerVariables(PlacedVariables placed, std::span<const Creation> variables)
    : WorkerVariables(std::move(placed)) {
  forms_.assign(placed_.size(), {});
  for (const Creation& each : variables)
    forms_[placed_.find(each.name).value()] = form_of(each.value);
}

void WorkerVariables::learn_forms(std::span<const Parameter::Reading> values) {
  forms_.resize(values.size());
  for (std::size_t i = 0; i < forms_.size(); ++i)
    if (values[i].value.defined()) forms_[i] = form_of(values[i].value);
}

std::vector<std::size_t> WorkerVariables::wholes_of(int server) const {
  std::vector<std::size_t> wholes;
  for (const std::size_t i : placed_.of_server(server))
    if (forms_.empty() || !is_by_rows_[i]) wholes.push_back(i);
  return wholes;
}

std::uint64_t WorkerVariables::value_bytes(std::span<const std::size_t> variables) const {
  std::uint64_t bytes = 0;
  if (forms_.empty()) return bytes;
  for (const std::size_t i : variables) bytes += bytes_of(forms_[i]);
  return bytes;
}

std::uint64_t WorkerVariables::value_bytes_of_rows(std::size_t variable, std::int64_t rows) const {
  if (forms_.empty()) return 0;
  return row_bytes_of(forms_[variable]) * static_cast<std::uint64_t>(rows);
}

}  // namespace brigade::ps
