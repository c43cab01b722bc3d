#include "brigade/comm/exchange/wire.h"

namespace brigade::comm {

at::ScalarType wire_dtype(WireType wire, at::ScalarType full) {
  switch (wire) {
    case WireType::kFull:
      return full;
    case WireType::kBFloat16:
      return at::kBFloat16;
    case WireType::kFloat16:
      return at::kHalf;
  }
  return full;
}

void round_to_wire(const at::Tensor& values, WireType wire) {
  if (wire != WireType::kFull) values.copy_(values.to(wire_dtype(wire, values.scalar_type())));
}

}  // namespace brigade::comm
