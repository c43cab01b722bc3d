#include "brigade/ps/store/reply_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/ScalarType.h>
#include <c10/util/accumulate.h>

namespace brigade::ps {
namespace {

// Of the text: what every reply has; of a tensor, its keys, its name, which is empty, its dtype and
// its updates; and a number with its comma. service_messages.h writes it.
constexpr std::size_t kReplyText = 512;
constexpr std::size_t kReplyTextOfTensor = 80;
constexpr std::size_t kReplyTextOfDimension = 24;
// Longer texts would be mostly spaces.
constexpr std::size_t kLongestReplyText = 1 << 20;
// Where a record's first tensor may begin.
constexpr std::size_t kReplyAlignment = 64;

}  // namespace

void ReplyMemory::begin(const ReplyExtent& extent) {
  const std::size_t text =
      kReplyText + extent.tensors * kReplyTextOfTensor + extent.dimensions * kReplyTextOfDimension;
  const std::size_t padded = (text + kReplyAlignment - 1) / kReplyAlignment * kReplyAlignment;
  text_bytes_ = 0;
  if (padded > kLongestReplyText || memory_.size() < padded ||
      memory_.size() - padded < extent.bytes)
    return;
  text_bytes_ = end_ = padded;
}

at::Tensor ReplyMemory::next(at::IntArrayRef sizes, at::ScalarType dtype) {
  const std::size_t element = c10::elementSize(dtype);
  const std::size_t bytes = static_cast<std::size_t>(c10::multiply_integers(sizes)) * element;
  const std::size_t begin = end_;
  if (text_bytes_ > 0) end_ += bytes;
  if (text_bytes_ == 0 || bytes == 0 || begin % element != 0) return at::empty(sizes, dtype);
  return at::from_blob(
      memory_.data() + begin, sizes, [owner = owner_](void*) {}, dtype);
}

}  // namespace brigade::ps
