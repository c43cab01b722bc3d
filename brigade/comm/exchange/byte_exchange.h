#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/comm/process_communicator.h"

namespace brigade::comm {

/// Moves bytes between the processes of a group, without knowing what they mean.
/// `make_exchange_link` turns it into a ProcessLink. All ranks start the same transfers in the same
/// order; several may be in flight at the same time. Tensors are flat bytes on CPU that own their
/// memory; a transfer that was aborted may keep a reference to it.
///
/// Thread-safety: one call at a time.
class ByteExchange {
 public:
  /// A transfer in flight.
  class Transfer {
   public:
    virtual ~Transfer() = default;
    /// Returns when it is complete. Throws what collectives throw: kUnavailable if a member is
    /// lost, kDeadlineExceeded if one does not make the call in time, and the error with which a
    /// peer gave up.
    virtual void wait() = 0;
  };

  virtual ~ByteExchange() = default;
  virtual Transport transport() const = 0;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  /// The transfers that follow belong to this collective. Errors mention its name, which must
  /// outlive them.
  virtual void begin_call(std::string_view what) = 0;

  /// Gathers every rank's `mine`, all of one size, into `all` (`[world_size, size]`), by rank. With
  /// two ranks `mine` may be this rank's row of `all`.
  virtual std::unique_ptr<Transfer> start_all_gather(const at::Tensor& mine,
                                                     const at::Tensor& all) = 0;
  /// Sends row r of `rows` (`[world_size, size]`) to rank r, into row `rank` of its `received`.
  virtual std::unique_ptr<Transfer> start_all_to_all(const at::Tensor& rows,
                                                     const at::Tensor& received) = 0;
  /// Copies the root's `values` to all ranks, along the binomial tree (`binomial_children`).
  virtual void broadcast(const at::Tensor& values, int root) = 0;

  /// Aborts the transfers in flight, and reports the reason to the other members.
  virtual void give_up(const Error& reason) noexcept = 0;
};

}  // namespace brigade::comm
