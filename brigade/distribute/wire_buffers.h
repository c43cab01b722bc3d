#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "brigade/comm/process_communicator.h"
#include "brigade/optim/optimizer_state.h"

namespace brigade::distribute {

/// The gradients of one optimizer as they travel between processes: for each dtype one flat buffer
/// with all variables behind one another, from the last to the first, as backward finishes them,
/// and behind the gradients of the first buffer one number a variable that says whether there is
/// one. So a step is one reduction a dtype, and every process learns with the sums which variables
/// have a gradient anywhere.
///
/// Thread-safety: `fill` by several replicas at once, for different shares; the rest by one thread,
/// when they are done.
class WireBuffers {
 public:
  /// Collective of the processes: buffers lie where their communicator reads them best.
  WireBuffers(const optim::OptimizerState& state,
              std::shared_ptr<comm::ProcessCommunicator> workers, std::int64_t bytes_per_pack);

  /// Writes share `share` of `shares` of the sums of `parts` ([replica][variable], undefined: none)
  /// into the buffers, in replica order.
  void fill(std::span<const std::span<const at::Tensor>> parts, int share, int shares);
  /// Adds the buffers over the processes. A collective.
  void reduce();
  /// The sums, as aliases of the buffers in the shape of their variables; undefined where no
  /// process has a gradient. Valid until the next `fill`.
  std::vector<at::Tensor> sums() const;

 private:
  struct Place {
    std::size_t buffer = 0;
    std::int64_t offset = 0;
    bool is_sent = false;  // frozen variables are not
  };
  struct Buffer {
    at::ScalarType dtype = at::kFloat;
    std::vector<std::size_t> variables;  // in their order there
    std::int64_t size = 0;
    at::Tensor values;
    std::vector<at::Tensor> packs;
  };
  void lay_out();
  void fill_part(const Buffer& buffer, std::span<const std::span<const at::Tensor>> parts,
                 std::int64_t begin, std::int64_t end);
  void write_presence(std::span<const std::span<const at::Tensor>> parts);

  const optim::OptimizerState& state_;
  const std::shared_ptr<comm::ProcessCommunicator> workers_;
  const std::int64_t bytes_per_pack_;
  std::vector<Place> places_;  // [variable]
  std::vector<Buffer> buffers_;
  at::Tensor presence_;  // the end of the first buffer
  std::vector<at::Tensor> sums_;
};

}  // namespace brigade::distribute
