#include "brigade/models/slim_net.h"

#include "brigade/comm/stage_passes.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/conv2d.h"
#include "brigade/layers/end_points.h"
#include "brigade/layers/pooling.h"
#include "brigade/models/model_scope.h"

namespace brigade::models {

at::Tensor slim_net(const at::Tensor& images, const SlimNetOptions& options) {
  const ModelScope scope(options.scope, options.reuse);
  layers::EndPoints points;
  at::Tensor net = comm::begin_layer("conv1", images);
  net = layers::conv2d(net, 64, {3, 3}, {.scope = "conv1"});
  points.set("conv1", net);
  net = layers::max_pool2d(net, {2, 2}, {.scope = "pool1"});
  points.set("pool1", net);
  net = comm::begin_layer("fc1", net);
  net = layers::flatten(net, {.scope = "flatten"});
  net = layers::fully_connected(net, 256, {.scope = "fc1"});
  points.set("fc1", net);
  net = comm::begin_layer("fc2", net);
  net = layers::fully_connected(net, options.classes, {.activation = nullptr, .scope = "fc2"});
  points.set("fc2", net);
  layers::add_end_points("slim_net", points, options.end_points);
  return net;
}

}  // namespace brigade::models
