#pragma once

#include <stdlib.h>

namespace brigade::comm {

/// For tests in which the ranks of Gloo are threads of one process, before the first of them
/// begins: libtorch's flight recorder, one for the whole process, is written by every group without
/// a lock. It reads this variable at its first use, and then keeps nothing. Processes have one
/// group each.
inline void let_ranks_be_threads() {
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/0);
}

}  // namespace brigade::comm
