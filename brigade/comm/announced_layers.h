#pragma once

#include <functional>
#include <string>
#include <vector>

namespace brigade::comm {

/// The names of the layers that `forward` announces (`begin_layer`), in the order in which they
/// first begin: those at which a pipeline can cut the model. `forward` runs on this thread as the
/// only replica of nothing, without collectives; a batch without examples is enough.
///
///   announced_layers([&] { model->forward(at::zeros({0, 1, 28, 28})); });
std::vector<std::string> announced_layers(const std::function<void()>& forward);

}  // namespace brigade::comm
