#include "brigade/layers/layer_sequence.h"

#include <string>
#include <vector>

#include "brigade/comm/stage_passes.h"

namespace brigade::layers {

at::Tensor LayerSequence::forward(const at::Tensor& inputs) {
  at::Tensor x = inputs;
  auto layer = begin();
  for (const std::string& name : named_children().keys()) {
    x = comm::begin_layer(name, x);
    x = (layer++)->forward(x);
  }
  return x;
}

}  // namespace brigade::layers
