#pragma once

#include <functional>

#include "brigade/optim/update_rule.h"

namespace brigade::optim {

/// Calls `update` with the ranges of `arguments`, divided so that each fills whole vectors: the
/// last elements of a range are in a separate range, a copy with zeros after them, and are
/// copied back afterwards. For libtorch's fused kernels on CPU, which compute the elements that
/// fill no vector in double precision and the others in single precision: without this the bits of
/// an element would depend on where ranges end, and so on how many replicas or parameter servers
/// divide an update. Ranges on other devices stay as they are. Tensors must be contiguous.
///
/// `update` must be elementwise, and only read the gradients.
void update_in_whole_vectors(const UpdateArguments& arguments,
                             const std::function<void(const UpdateArguments&)>& update);

}  // namespace brigade::optim
