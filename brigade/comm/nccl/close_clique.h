#pragma once

#include <functional>

#include "brigade/comm/nccl/nccl_communicator.h"

namespace brigade::comm {

/// Closes a group in good order, after what is queued. Returns when that is done, or fails, or
/// `gives_up` is true; the clique's end aborts what is left. No other thread uses the clique.
void close_clique(NcclClique& clique, const std::function<bool()>& gives_up) noexcept;

}  // namespace brigade::comm
