#include "brigade/layers/repeat_layers.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::layers {

at::Tensor repeat(const at::Tensor& inputs, int repetitions, const NamedLayer& layer,
                  const RepeatOptions& options) {
  if (repetitions < 0) {
    throw Error(ErrorCode::kInvalidArgument, base::str_cat("repeat: the number of repetitions is ",
                                                           repetitions, "; expected 0 or more"));
  }
  const OpenLayer around(options.scope ? LayerScope(*options.scope) : LayerScope(), "Repeat",
                         std::nullopt);
  at::Tensor outputs = inputs;
  for (int number = 1; number <= repetitions; ++number) {
    outputs = layer(outputs, base::str_cat(options.scope.value_or("repeat"), "_", number));
  }
  return outputs;
}

}  // namespace brigade::layers
