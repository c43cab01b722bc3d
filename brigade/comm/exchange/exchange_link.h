#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/cluster/membership.h"
#include "brigade/comm/local/chunks.h"
#include "brigade/comm/peer_status.h"
#include "brigade/comm/process_link.h"

namespace brigade::comm {

/// A link over a transport that moves bytes without knowing what they mean. It sends everything in
/// chunks of at most kChunkBytes, and adds by the tree:
///   1. With two ranks of one part each, or up to kSmallBytes, every rank gathers all parts and
///   adds them itself.
///   2. Otherwise an all-to-all gives each rank all parts of its shard; it adds them, and an
///      all-gather sends the sums to all ranks.
/// Bits depend only on the parts and their tree. A rank of several parts sends each of them; none
/// is padded to the number of another rank. Other processes cannot reach its buffers.
class ExchangeLink : public ProcessLink {
 protected:
  static constexpr std::int64_t kChunkBytes = 4 << 20;
  /// Up to this size one round is faster than sending fewer bytes in two.
  static constexpr std::int64_t kSmallBytes = 4 * 1024;

  /// `name` is the prefix of its keys in the membership's store.
  ExchangeLink(const std::shared_ptr<cluster::Membership>& membership, const std::string& name,
               const CommunicationOptions& options);

  cluster::Membership& membership() const { return *membership_; }
  const CommunicationOptions& options() const { return options_; }
  PeerStatus& peer_status() { return peer_status_; }
  /// The name of the current call.
  std::string_view what() const { return what_; }
  void begin_call(std::string_view what) final;
  /// Watches a wait in the current call.
  CollectiveWatchdog watch() { return {*membership_, peer_status_, options_, what_}; }

  /// A transfer in flight. All ranks start the same transfers in the same order; several may be in
  /// flight at the same time. Tensors are flat bytes on CPU that own their memory; a transfer that
  /// was aborted may keep a reference to it.
  class Transfer {
   public:
    virtual ~Transfer() = default;
    /// Returns when it is complete. Throws what collectives throw: kUnavailable if a member is
    /// lost, kDeadlineExceeded if one does not make the call in time, and the error with which a
    /// peer gave up.
    virtual void wait() = 0;
  };

  /// The sizes in bytes of what is sent to or received from each rank, by rank.
  using Sizes = std::vector<std::int64_t>;

  /// Gathers every rank's `mine`, of sizes[rank] bytes, into `all`, one after another. With two
  /// ranks `mine` may be this rank's range of `all`.
  virtual std::unique_ptr<Transfer> start_all_gather(const at::Tensor& mine, const at::Tensor& all,
                                                     const Sizes& sizes) = 0;
  /// `sent` has the same number of bytes for each rank, one after another. Sends them, and writes
  /// what this rank receives to `received`, sizes[rank] bytes from each rank, by rank.
  virtual std::unique_ptr<Transfer> start_all_to_all(const at::Tensor& sent,
                                                     const at::Tensor& received,
                                                     const Sizes& sizes) = 0;
  /// Copies the root's `values` to all ranks, along the binomial tree (`binomial_children`).
  virtual void broadcast_bytes(const at::Tensor& values, int root) = 0;

 private:
  /// A chunk whose parts are being gathered.
  struct Gathering {
    const Chunk* chunk = nullptr;
    at::Tensor all = {};  ///< [part]: of all ranks
    std::unique_ptr<Transfer> transfer = nullptr;
  };
  /// What scratch memory is used for. The first two exist twice, for alternate chunks.
  enum class ScratchUse {
    kParts = 0,
    kMine = 2,
    kSums = 4,
    kShards = 5,
    kShardParts = 6,
    kPart = 7,
    kCount = 8
  };

  GatheredBytes gather(std::span<const std::byte> mine, std::int64_t longest) override;
  void reduce(std::span<const FlatTensor> tensors, ReduceOp op,
              const ReductionBlocks& blocks) override;
  void broadcast(std::span<const FlatTensor> tensors, int root) override;

  bool goes_in_one_round(const Chunk& chunk, const ReductionBlocks& blocks) const;
  Gathering start(const Chunk& chunk, std::span<const FlatTensor> tensors,
                  const ReductionBlocks& blocks);
  void finish(Gathering& gathering, std::span<const FlatTensor> tensors, ReduceOp op,
              const ReductionBlocks& blocks);
  void reduce_by_shards(const Chunk& chunk, std::span<const FlatTensor> tensors, ReduceOp op,
                        const ReductionBlocks& blocks);
  void copy_shards_in(const Chunk& chunk, std::span<const FlatTensor> tensors,
                      const at::Tensor& shards);
  at::ScalarType dtype_of(const Chunk& chunk) const;
  at::Tensor combine(const Chunk& chunk, const at::Tensor& parts, ReduceOp op,
                     const ReductionBlocks& blocks);
  at::Tensor scratch(ScratchUse use, std::size_t parity, at::IntArrayRef shape,
                     at::ScalarType dtype);

  const std::shared_ptr<cluster::Membership> membership_;
  const CommunicationOptions options_;
  PeerStatus peer_status_;
  std::string_view what_;
  std::array<at::Tensor, static_cast<std::size_t>(ScratchUse::kCount)> scratch_;
  std::uint64_t gatherings_started_ = 0;
  at::Tensor gathered_;  // what `gather` returned last
};

/// A binomial tree, along which a broadcast reaches all ranks in log2(world_size) rounds, as in
/// Gloo. Returns the ranks to which `rank` forwards what `root` sends: first the one with the
/// largest subtree.
std::vector<int> binomial_children(int rank, int root, int world_size);
/// The rank from which `rank`, which is not the root, receives.
int binomial_parent(int rank, int root, int world_size);

}  // namespace brigade::comm
