#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/comm/exchange/call_header.h"
#include "brigade/comm/communicator.h"
#include "brigade/comm/process_communicator.h"

namespace brigade::comm {

/// Memory made for reductions.
struct LinkBuffer {
  std::shared_ptr<void> memory;  ///< keeps all of it mapped
  std::byte* own = nullptr;      ///< this process's part
  /// [rank]: everybody's part, where this process can reach them; otherwise empty.
  std::vector<std::byte*> parts = {};
};

/// A tensor on its way: one dimension, contiguous, on CPU, with at least one element.
struct FlatTensor {
  at::Tensor values;
  /// [rank]: everybody's values, where all lie in memory that this process reaches; otherwise
  /// empty.
  std::vector<at::Tensor> parts = {};
  /// Whether it travels in the wire type.
  bool narrow = false;
};

/// The route between processes: what `make_linked_communicator` makes a communicator of, which
/// checks calls before they come here. Every collective starts with `exchange`, and what follows is
/// the same on every rank. Whoever waits here is released with kUnavailable when a member is lost,
/// and with an error when a peer has given up or left.
///
/// Thread-safety: one call at a time.
class ProcessLink {
 public:
  static constexpr std::size_t kMaxText = 4096;

  virtual ~ProcessLink() = default;
  virtual Transport transport() const = 0;
  virtual std::int64_t bytes_sent() const = 0;

  /// Everybody's header by rank, valid until the next call. All that a rank wrote to shared buffers
  /// before it came is seen by all that return.
  virtual std::span<const CallHeader> exchange(const CallHeader& mine) = 0;
  /// Everybody's text, of at most kMaxText characters, by rank.
  virtual std::vector<std::string> exchange_texts(const std::string& mine) = 0;

  /// Combines in rank order, in place. Tensors either all have `parts` or none.
  virtual void reduce(std::span<const FlatTensor> tensors, ReduceOp op) = 0;
  virtual void broadcast(std::span<const FlatTensor> tensors, int root) = 0;
  /// By rank, on CPU. `mine` is contiguous and on CPU; `headers` say the others' shapes.
  virtual std::vector<at::Tensor> all_gather(const at::Tensor& mine,
                                             std::span<const CallHeader> headers) = 0;
  /// Zeros, aligned for any dtype.
  virtual LinkBuffer make_buffer(std::int64_t bytes) = 0;

  /// Releases the others with this reason, now and whenever they come.
  virtual void give_up(const Error& reason) noexcept = 0;
};

/// A communicator over `link`. Checks that all make the same calls with the same shapes in the same
/// step, brings tensors into flat form and back, knows which of them lie in its buffers, and
/// remembers the first failure. `name` is how the others' errors call this process.
std::unique_ptr<ProcessCommunicator> make_linked_communicator(std::unique_ptr<ProcessLink> link,
                                                              int rank, int world_size,
                                                              WireType wire, std::string name);

/// Zeros that no other process reaches.
LinkBuffer make_private_buffer(std::int64_t bytes);

/// The link of a process without others.
std::unique_ptr<ProcessLink> make_single_link(Transport transport);

}  // namespace brigade::comm
