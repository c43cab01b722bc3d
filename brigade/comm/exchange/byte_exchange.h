#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/comm/process_communicator.h"

namespace brigade::comm {

/// A route that moves bytes between the processes of a group, and knows nothing of what they mean:
/// what `make_exchange_link` makes a ProcessLink of. All ranks start the same transfers in the same
/// order, and several may be under way at once. Tensors are flat bytes on CPU that own their
/// memory, which a transfer that is given up may keep.
///
/// Thread-safety: one call at a time.
class ByteExchange {
 public:
  /// Something under way.
  class Transfer {
   public:
    virtual ~Transfer() = default;
    /// Returns when it is done. Throws as collectives do: kUnavailable when a member is lost,
    /// kDeadlineExceeded when one does not come, what a peer gave as its reason to give up.
    virtual void wait() = 0;
  };

  virtual ~ByteExchange() = default;
  virtual Transport transport() const = 0;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  /// Transfers belong to this collective from now on; errors mention its name, which must live on.
  virtual void begin_call(std::string_view what) = 0;

  /// Brings everybody's `mine`, all of one size, into `all` (`[world_size, size]`) by rank. `mine`
  /// may be this rank's row of `all` where there are two ranks.
  virtual std::unique_ptr<Transfer> start_all_gather(const at::Tensor& mine,
                                                     const at::Tensor& all) = 0;
  /// Brings row r of `rows` (`[world_size, size]`) to rank r, into row `rank` of its `received`.
  virtual std::unique_ptr<Transfer> start_all_to_all(const at::Tensor& rows,
                                                     const at::Tensor& received) = 0;
  /// Copies the root's `values` to everybody, along the binomial tree (`binomial_children`).
  virtual void broadcast(const at::Tensor& values, int root) = 0;

  /// Ends what is under way, and tells the others why.
  virtual void give_up(const Error& reason) noexcept = 0;
};

}  // namespace brigade::comm
