#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <vector>

#include "brigade/ps/parameter_service.h"

namespace brigade::ps {

/// Copies of a worker's latest pushes to a server, in memory that is used again: of the next one,
/// and of the last one, which may have to be sent again.
///
/// Thread-safety: one thread.
class PushCopies {
 public:
  /// Replaces the gradients of `push` by copies, which are valid until the next call; the first
  /// `unchanging` ones, which nobody changes, are left as they are.
  void copy_gradients(Push& push, std::size_t unchanging = 0);
  /// Keeps these copies during the next call, too. Those that were kept before are over.
  void keep() { next_ = 1 - next_; }

 private:
  std::array<std::vector<at::Tensor>, 2> buffers_;
  std::size_t next_ = 0;
};

}  // namespace brigade::ps
