#pragma once

#include <ATen/core/Tensor.h>

#include "brigade/comm/process_communicator.h"

namespace brigade::comm {

/// The dtype of `wire`; `full` for kFull.
at::ScalarType wire_dtype(WireType wire, at::ScalarType full);

/// Rounds `values` in place to the precision of `wire`, as sending and receiving them would.
void round_to_wire(const at::Tensor& values, WireType wire);

}  // namespace brigade::comm
