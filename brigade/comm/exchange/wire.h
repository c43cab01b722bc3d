#pragma once

#include <ATen/core/Tensor.h>

#include "brigade/comm/process_communicator.h"

namespace brigade::comm {

/// The dtype that `wire` stands for; `full` for kFull.
at::ScalarType wire_dtype(WireType wire, at::ScalarType full);

/// Gives `values` the precision of `wire` in place, as a way over the wire and back would.
void round_to_wire(const at::Tensor& values, WireType wire);

}  // namespace brigade::comm
