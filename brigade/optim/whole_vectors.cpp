#include "brigade/optim/whole_vectors.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace brigade::optim {

namespace {

constexpr std::int64_t kVectorBytes = 64;  // no vector of a CPU is longer

std::int64_t tail_size(const at::Tensor& tensor) {
  if (!tensor.is_cpu()) return 0;
  return tensor.numel() % (kVectorBytes / tensor.element_size());
}

/// The last elements of a tensor, which fill no vector, and their copy.
struct Tail {
  at::Tensor whole;
  std::size_t bytes;
  at::Tensor copy;  // flat, with zeros up to a whole vector
};

char* begin_of(const Tail& tail) {
  return static_cast<char*>(tail.whole.data_ptr()) + tail.whole.nbytes() - tail.bytes;
}

/// Appends the whole vectors of each tensor to `ranges`, and a copy of its tail.
std::vector<Tail> append_divided(const std::vector<at::Tensor>& tensors,
                                 std::vector<at::Tensor>& ranges) {
  std::vector<Tail> tails;
  for (const at::Tensor& tensor : tensors) {
    const std::int64_t size = tail_size(tensor);
    if (size == 0) {
      ranges.push_back(tensor);
      continue;
    }
    const std::int64_t whole = tensor.numel() - size;
    if (whole > 0) ranges.push_back(tensor.view({-1}).narrow(0, 0, whole));
    const Tail tail{.whole = tensor,
                    .bytes = static_cast<std::size_t>(size * tensor.element_size()),
                    .copy = at::zeros({kVectorBytes / tensor.element_size()}, tensor.options())};
    std::memcpy(tail.copy.mutable_data_ptr(), begin_of(tail), tail.bytes);
    ranges.push_back(tail.copy);
    tails.push_back(tail);
  }
  return tails;
}

}  // namespace

void update_in_whole_vectors(const UpdateArguments& arguments,
                             const std::function<void(const UpdateArguments&)>& update) {
  const auto& parameters = arguments.parameters;
  if (std::all_of(parameters.begin(), parameters.end(),
                  [](const at::Tensor& each) { return tail_size(each) == 0; }))
    return update(arguments);
  UpdateArguments divided{.step = arguments.step, .on_device = arguments.on_device};
  divided.slots.resize(arguments.slots.size());
  append_divided(arguments.gradients, divided.gradients);
  std::vector<Tail> tails = append_divided(parameters, divided.parameters);
  for (std::size_t slot = 0; slot < arguments.slots.size(); ++slot) {
    const auto more = append_divided(arguments.slots[slot], divided.slots[slot]);
    tails.insert(tails.end(), more.begin(), more.end());
  }
  update(divided);
  for (const Tail& tail : tails)
    std::memcpy(begin_of(tail), tail.copy.const_data_ptr(), tail.bytes);
}

}  // namespace brigade::optim
