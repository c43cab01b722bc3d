#include "brigade/data/core/input_selector.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {

void check_has_datasets(std::size_t count, const std::string& name) {
  check_argument(count > 0, base::str_cat(name, ": no datasets to choose from; pass 1 or more"));
}

std::string selection_name(const std::string& name, WhenEmpty when_empty) {
  return base::str_cat(name, when_empty == WhenEmpty::kStop ? "[stop when empty]" : "[go on]");
}

void check_not_cancelled(const IteratorOptions& options, const std::string& name) {
  if (options.cancel) options.cancel->throw_if_cancelled(name);
}

}  // namespace brigade::data::internal
