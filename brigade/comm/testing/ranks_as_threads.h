#pragma once

#include <stdlib.h>

namespace brigade::comm {

/// For tests in which the ranks of Gloo are threads of one process; call it before they start. It
/// disables libtorch's flight recorder, which all groups of a process write without a lock. The
/// recorder reads this variable at its first use.
inline void let_ranks_be_threads() {
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/0);
}

}  // namespace brigade::comm
