#include "brigade/distribute/gradients.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::distribute {

at::Tensor& Gradients::operator[](std::string_view name) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    if (variables_[i].name() == name) return values_[i];
    names.push_back(variables_[i].name());
  }
  throw Error(ErrorCode::kNotFound,
              base::str_cat("There is no gradient of a variable '", name, "'; this optimizer has ",
                            base::join(names, ", "), "."));
}

}  // namespace brigade::distribute
