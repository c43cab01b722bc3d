#include "brigade/ps/client/push_copies.h"

namespace brigade::ps {

void PushCopies::copy_gradients(Push& push, std::size_t unchanging) {
  std::vector<at::Tensor>& copies = buffers_[next_];
  copies.resize(push.gradients.size());
  for (std::size_t i = unchanging; i < copies.size(); ++i) {
    const at::Tensor& gradient = push.gradients[i].tensor;
    at::Tensor& copy = copies[i];
    if (copy.defined() && copy.sizes() == gradient.sizes() &&
        copy.scalar_type() == gradient.scalar_type())
      copy.copy_(gradient);
    else
      copy = gradient.detach().clone(at::MemoryFormat::Contiguous);
    push.gradients[i].tensor = copy;
  }
  push.rows = copies_of(push.rows);
}

}  // namespace brigade::ps
