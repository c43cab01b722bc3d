#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/comm/communicator.h"
#include "brigade/comm/exchange/call_header.h"
#include "brigade/comm/process_communicator.h"

namespace brigade::comm {

/// Memory that was allocated for reductions.
struct LinkBuffer {
  std::shared_ptr<void> memory;  ///< keeps the whole buffer mapped
  std::byte* own = nullptr;      ///< this process's part
  /// [rank]: the part of each rank, if this process can access them; otherwise empty.
  std::vector<std::byte*> parts = {};
};

/// A tensor in the form in which links take it: one dimension, contiguous, on CPU, with at least
/// one element.
struct FlatTensor {
  at::Tensor values;
  /// [rank]: the values of each rank, if all are in memory that this process can access; otherwise
  /// empty.
  std::vector<at::Tensor> parts = {};
  /// Whether it is sent in the wire type.
  bool narrow = false;
};

/// The transport under a ProcessCommunicator, which `make_linked_communicator` makes of it and
/// which checks calls before they come here. Every collective starts with `exchange`; the calls
/// that follow are the same on every rank. A waiting call throws kUnavailable if a member is lost,
/// and an error if a peer has given up or left.
///
/// Thread-safety: one call at a time.
class ProcessLink {
 public:
  static constexpr std::size_t kMaxText = 4096;

  virtual ~ProcessLink() = default;
  virtual Transport transport() const = 0;
  virtual std::int64_t bytes_sent() const = 0;

  /// Exchanges headers. Returns those of all ranks, by rank, valid until the next call. Whatever a
  /// rank wrote to shared buffers before this call is visible to all ranks after it.
  virtual std::span<const CallHeader> exchange(const CallHeader& mine) = 0;
  /// Exchanges texts of at most kMaxText characters; returns them by rank.
  virtual std::vector<std::string> exchange_texts(const std::string& mine) = 0;

  /// Combines in rank order, in place. Either all tensors have `parts`, or none.
  virtual void reduce(std::span<const FlatTensor> tensors, ReduceOp op) = 0;
  virtual void broadcast(std::span<const FlatTensor> tensors, int root) = 0;
  /// Returns all ranks' tensors by rank, on CPU. `mine` is contiguous and on CPU; `headers` hold
  /// the shapes.
  virtual std::vector<at::Tensor> all_gather(const at::Tensor& mine,
                                             std::span<const CallHeader> headers) = 0;
  /// Allocates zeros, aligned for any dtype.
  virtual LinkBuffer make_buffer(std::int64_t bytes) = 0;

  /// Makes the calls of all other ranks fail with this reason, those that wait and later ones.
  virtual void give_up(const Error& reason) noexcept = 0;
};

/// A communicator over `link`. It checks that all ranks make the same calls with the same shapes in
/// the same step, flattens tensors and copies results back, knows which tensors are in its buffers,
/// and remembers the first failure. `name` is this process's name in the errors of other ranks.
std::unique_ptr<ProcessCommunicator> make_linked_communicator(std::unique_ptr<ProcessLink> link,
                                                              int rank, int world_size,
                                                              WireType wire, std::string name);

/// Allocates zeros that no other process can access.
LinkBuffer make_private_buffer(std::int64_t bytes);

/// The link of a single process.
std::unique_ptr<ProcessLink> make_single_link(Transport transport);

}  // namespace brigade::comm
