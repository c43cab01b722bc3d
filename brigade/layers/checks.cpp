#include "brigade/layers/checks.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::layers {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

}  // namespace

void check_outputs(const char* layer, std::int64_t num_outputs) {
  if (num_outputs >= 1) return;
  refuse(base::str_cat(layer, ": the number of outputs is ", num_outputs, "; expected 1 or more"));
}

void check_dimensions(const char* layer, const at::Tensor& inputs, std::int64_t at_least) {
  if (!inputs.defined()) refuse(base::str_cat(layer, ": inputs are an undefined tensor"));
  if (inputs.dim() >= at_least) return;
  refuse(base::str_cat(layer, ": inputs have shape ", inputs.sizes(), "; expected at least ",
                       at_least, " dimensions"));
}

void check_keep_prob(const char* layer, double keep_prob) {
  if (keep_prob > 0.0 && keep_prob <= 1.0) return;
  refuse(base::str_cat(layer, ": keep_prob is ", keep_prob, "; expected more than 0, at most 1"));
}

}  // namespace brigade::layers
