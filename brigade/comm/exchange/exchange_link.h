#pragma once

#include <memory>

#include "brigade/comm/exchange/byte_exchange.h"
#include "brigade/comm/process_link.h"

namespace brigade::comm {

/// The link over a ByteExchange: it gathers headers and texts, reduces in rank order
/// (OrderedReduction), and sends everything larger in chunks. Other processes cannot reach its
/// buffers.
std::unique_ptr<ProcessLink> make_exchange_link(std::unique_ptr<ByteExchange> exchange,
                                                WireType wire);

}  // namespace brigade::comm
