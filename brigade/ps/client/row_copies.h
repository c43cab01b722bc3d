#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "brigade/concurrency/mutex.h"
#include "brigade/optim/optimizer_state.h"
#include "brigade/ps/client/parameter_client.h"
#include "brigade/ps/variable_parts.h"
#include "brigade/variables/row_source.h"

namespace brigade::ps {

/// The rows of a worker's copy that are current: those that layers asked for in this step. A
/// variable of which rows were fetched once is not pulled as a whole any longer
/// (`ParameterClient::pull_by_rows`), so its other rows are those of an earlier time.
///
/// Replicas that share the variables' memory share the fetched rows: each row is pulled and written
/// once a step, before any of them reads it.
///
/// Thread-safety: `fetch` from any replica's thread at the same time; it is the only user of the
/// client then. The rest while no replica fetches.
class RowCopies {
 public:
  /// `parts`: of the variables, in the order of the client's placement. All outlive this.
  RowCopies(optim::OptimizerState& state, const std::vector<VariablePart>& parts,
            ParameterClient& client);

  /// Whether rows of any variable were fetched.
  bool is_used() const BRIGADE_EXCLUDES(mutex_);
  /// Values have changed, or must be read again: no row is current.
  void forget() BRIGADE_EXCLUDES(mutex_);
  /// Pulls those of the rows that are not current into the components of replica `replica`.
  void fetch(int replica, std::span<const variables::WantedRows> wanted) BRIGADE_EXCLUDES(mutex_);

  /// Throws kFailedPrecondition, naming the variable, for a gradient that is not of rows, of a
  /// variable of which rows were fetched: it was computed with old rows.
  void check_gradients(std::span<const at::Tensor> gradients) const BRIGADE_EXCLUDES(mutex_);

 private:
  using Indices = std::vector<std::int64_t>;  // ascending, each once
  /// Rows of one variable that are to be pulled.
  struct Missing {
    std::size_t variable = 0;
    Indices rows;
  };
  std::optional<std::size_t> variable_of(const at::Tensor& table) const;
  std::size_t memory_of(std::size_t variable, int replica) const;
  std::vector<Missing> missing_rows(int replica, std::span<const variables::WantedRows> wanted)
      BRIGADE_REQUIRES(mutex_);
  void pull(int replica, const std::vector<Missing>& missing) BRIGADE_REQUIRES(mutex_);
  void read_by_rows(std::size_t variable) BRIGADE_REQUIRES(mutex_);
  void write(int replica, const VariablePart& part, const at::Tensor& indices,
             const at::Tensor& rows) const;

  optim::OptimizerState& state_;
  const std::vector<VariablePart>& parts_;
  ParameterClient& client_;
  std::map<const void*, std::size_t> variables_;  // by the address of a component

  mutable concurrency::Mutex mutex_;                         // held while rows are pulled
  std::vector<bool> is_by_rows_ BRIGADE_GUARDED_BY(mutex_);  // [variable]
  // [variable][replica]: the rows that are current; of replica 0 for all that share its memory.
  std::vector<std::vector<Indices>> current_ BRIGADE_GUARDED_BY(mutex_);
};

/// The part of a gradient of rows that is of `part`, sparse as well; with a part along another axis
/// than the rows, all of its rows.
at::Tensor rows_of_part(const VariablePart& part, const at::Tensor& gradient);

}  // namespace brigade::ps
