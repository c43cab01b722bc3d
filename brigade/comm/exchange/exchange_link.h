#pragma once

#include <memory>

#include "brigade/comm/exchange/byte_exchange.h"
#include "brigade/comm/process_link.h"

namespace brigade::comm {

/// The link over a route of bytes: headers and texts are gathered, reductions are ordered ones
/// (OrderedReduction), everything larger goes in chunks. Buffers are of no use to others.
std::unique_ptr<ProcessLink> make_exchange_link(std::unique_ptr<ByteExchange> exchange,
                                                WireType wire);

}  // namespace brigade::comm
