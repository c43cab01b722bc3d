#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace brigade::comm {

/// Host copies of tensors on GPUs, for collectives that the host makes. The tensors of one GPU and
/// dtype are copied together through pinned memory, which the GPU reads and writes itself: one copy
/// in each direction, instead of a pageable one for each tensor. The host waits once for each GPU,
/// and not at all when values go back.
///
/// Thread-safety: one thread, whose current streams are used.
class PackedCopies {
 public:
  /// Adds a tensor, in any layout. Numbers count from 0.
  void add(const at::Tensor& tensor);
  std::size_t size() const { return entries_.size(); }
  /// Copies all tensors to the host. Returns when they are there.
  void fetch();
  /// The host copy, flat, after `fetch`. It may be written to.
  const at::Tensor& flat(std::size_t number) const { return entries_[number].flat; }
  /// Queues copies of the host's values into the first `count` tensors. They must not change any
  /// more.
  void send_back(std::size_t count) const;

 private:
  struct Entry {
    at::Tensor original;
    std::size_t pack = 0;
    std::int64_t offset = 0;  // in the pack
    at::Tensor flat = {};     // a view of it
  };
  /// The tensors of one GPU and dtype.
  struct Pack {
    at::TensorOptions options;
    std::vector<at::Tensor> parts;  // flat, on the GPU
    std::int64_t size = 0;
    at::Tensor on_host = {};
  };

  std::vector<Entry> entries_;
  std::vector<Pack> packs_;
};

}  // namespace brigade::comm
