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
#include "brigade/comm/reduction_blocks.h"

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
  /// What this rank contributes, and what it receives. In a reduction to which it contributes
  /// several parts (ReductionBlocks) this is the first.
  at::Tensor values;
  /// The other parts, of the same size and dtype.
  std::vector<at::Tensor> more_parts = {};
  /// [rank]: the values of each rank, if all are in memory that this process can access; otherwise
  /// empty.
  std::vector<at::Tensor> shared = {};
  /// The same for reductions: [part], those of all ranks.
  std::vector<at::Tensor> shared_parts = {};
  /// Whether it is sent in the wire dtype.
  bool narrow = false;

  const at::Tensor& part(std::size_t number) const {
    return number == 0 ? values : more_parts[number - 1];
  }
};

/// A collective between processes, on flat tensors.
struct FlatCall {
  Collective kind = Collective::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  /// Either all are shared, or none. A call that gathers has one tensor, in its own shape.
  std::span<const FlatTensor> tensors = {};
  const ReductionBlocks* blocks = nullptr;  ///< of reductions: the parts that each rank contributes
  std::span<const CallHeader> headers = {};  ///< of all ranks, by rank
};

/// What every rank sent in one gathering, in rows of equal length; valid until the next one.
struct GatheredBytes {
  const std::byte* first = nullptr;
  std::int64_t row = 0;   ///< the distance between the bytes of two ranks
  std::int64_t sent = 0;  ///< how many bytes this rank sent

  const std::byte* of(int rank) const { return first + rank * row; }
};

/// The transport of a ProcessCommunicator (`make_linked_communicator`), which checks calls before
/// it passes them on. Every collective starts with `exchange`; the calls
/// that follow are the same on every rank. A waiting call throws kUnavailable if a member is lost,
/// and an error if a peer has given up or left.
///
/// Thread-safety: one call at a time.
class ProcessLink {
 public:
  static constexpr std::size_t kMaxText = 4096;

  virtual ~ProcessLink() = default;
  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  virtual Transport transport() const = 0;

  /// Exchanges headers. Returns those of all ranks, by rank, valid until the next call. Whatever a
  /// rank wrote to shared buffers before this call is visible to all ranks after it.
  std::span<const CallHeader> exchange(const CallHeader& mine);
  /// Exchanges texts of at most kMaxText characters; returns them by rank.
  std::vector<std::string> exchange_texts(const std::string& mine);

  /// Makes the call whose headers were exchanged. Reductions add by the tree of
  /// `FlatCall::blocks`. Returns the tensors of a call that gathers, by rank and on CPU.
  std::vector<at::Tensor> run(const FlatCall& call);
  /// Allocates zeros, aligned for any dtype. The default: that no other process can access.
  virtual LinkBuffer make_buffer(std::int64_t bytes);

  /// Makes the calls of all other ranks fail with this reason, those that wait and later ones.
  virtual void give_up(const Error& reason) noexcept = 0;

  /// Bytes of values that this rank has sent.
  std::int64_t bytes_sent() const { return bytes_sent_; }

 protected:
  /// `chunk_bytes`: the most bytes that `gather` takes.
  ProcessLink(int rank, int world_size, std::int64_t chunk_bytes);

  void count_sent(std::int64_t bytes) { bytes_sent_ += bytes; }

 private:
  /// The transfers that follow belong to this collective. Errors mention its name, a literal.
  virtual void begin_call(std::string_view what) = 0;
  /// Sends `mine` to all ranks; `longest` is the size of the longest rank's bytes.
  virtual GatheredBytes gather(std::span<const std::byte> mine, std::int64_t longest) = 0;
  virtual void reduce(std::span<const FlatTensor> tensors, ReduceOp op,
                      const ReductionBlocks& blocks) = 0;
  virtual void broadcast(std::span<const FlatTensor> tensors, int root) = 0;

  std::vector<at::Tensor> all_gather(const at::Tensor& mine, std::span<const CallHeader> headers);

  const int rank_;
  const int world_size_;
  const std::int64_t chunk_bytes_;
  std::vector<CallHeader> headers_;
  std::int64_t bytes_sent_ = 0;
};

/// A communicator over `link`. It checks that all ranks make the same calls with the same shapes in
/// the same step, flattens tensors and copies results back, knows which tensors are in its buffers,
/// and remembers the first failure. The destructor reports to the other ranks a loss that
/// `membership` has noticed.
std::unique_ptr<ProcessCommunicator> make_linked_communicator(
    std::unique_ptr<ProcessLink> link, std::shared_ptr<const cluster::Membership> membership,
    WireDtype wire);

/// The link of a single process.
std::unique_ptr<ProcessLink> make_single_link(Transport transport);

// The links between several processes. Reductions add by the tree of their blocks. All return when
// every process has made its link. `name` is the prefix of their keys in the membership's store.

/// Over memory that all processes of one host map. Throws kUnavailable in every process if one of
/// them cannot map it.
std::unique_ptr<ProcessLink> make_shared_memory_link(
    std::shared_ptr<cluster::Membership> membership, const std::string& name,
    const CommunicationOptions& options);

/// Over c10d's Gloo: TCP, or TLS if there is a cluster key (cluster::ClusterKey). The processes
/// find each other through the membership's store; those of one host use the loopback interface.
/// Throws kPermissionDenied between hosts without a key, kUnimplemented without Gloo.
std::unique_ptr<ProcessLink> make_gloo_link(std::shared_ptr<cluster::Membership> membership,
                                            const std::string& name,
                                            const CommunicationOptions& options);

/// Over MPI, between processes that mpirun started. It uses a duplicate of MPI_COMM_WORLD, whose
/// ranks must be those of the membership, or a group of some of its processes, if the membership
/// has only some. If MPI is not initialized yet, it is initialized with
/// MPI_THREAD_MULTIPLE, and finalized when the process exits with 0. A member reports in the store
/// that it has given up or left. Throws kFailedPrecondition if MPI's ranks are not the membership's
/// (naming both), kUnimplemented without MPI.
std::unique_ptr<ProcessLink> make_mpi_link(std::shared_ptr<cluster::Membership> membership,
                                           const std::string& name,
                                           const CommunicationOptions& options);

}  // namespace brigade::comm
