#include "brigade/layers/softmax.h"

#include <ATen/ops/softmax.h>

#include "brigade/layers/checks.h"
#include "brigade/layers/layer_scope.h"

namespace brigade::layers {

at::Tensor softmax(const at::Tensor& logits, const std::string& scope) {
  check_dimensions("softmax", logits, 1);
  const OpenOperation operation(scope, "softmax");
  return at::softmax(operation.place("Softmax", logits), -1);
}

}  // namespace brigade::layers
