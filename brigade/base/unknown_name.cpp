#include "brigade/base/unknown_name.h"

#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::base {

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates,
                         std::string_view otherwise) {
  const auto near = nearest(name, candidates);
  return near ? str_cat("; did you mean ", quoted(*near), "?") : std::string(otherwise);
}

Error unknown_name(std::string_view kind, std::string_view name, std::string_view title,
                   const std::vector<std::string>& known) {
  return {ErrorCode::kInvalidArgument,
          str_cat("No ", kind, " is called ", quoted(name), did_you_mean(name, known, "."), " ",
                  title, ": ", join(known, ", "), ".")};
}

}  // namespace brigade::base
