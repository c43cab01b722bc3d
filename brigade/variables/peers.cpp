#include "brigade/variables/peers.h"

#include <ATen/core/grad_mode.h>

#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/worker_facts.h"
#include "brigade/variables/variable.h"

namespace brigade::variables {

namespace {

/// The properties that must be equal in all processes.
comm::Facts facts_of(std::span<const Variable> variables) {
  comm::Facts facts;
  for (const Variable& variable : variables) {
    facts.push_back({base::str_cat("variable ", facts.size() + 1),
                     base::str_cat(variable.name(), " ", variable.dtype(), variable.shape())});
  }
  return facts;
}

[[noreturn]] void throw_difference(const comm::FactDifference& found) {
  constexpr const char* kNone = "no more variables";
  throw Error(ErrorCode::kFailedPrecondition,
              base::str_cat("The processes made different variables: rank ", found.rank, " has ",
                            found.value.value_or(kNone), " where rank 0 has ",
                            found.first_value.value_or(kNone),
                            ". Every process must build the same model."));
}

}  // namespace

void agree_with_peers(std::span<const Variable> variables, const Peers& peers) {
  const at::NoGradGuard no_grad;
  comm::Communicator& processes = *peers.communicator;
  const auto found = comm::find_difference(processes, facts_of(variables));
  if (found) throw_difference(*found);
  std::vector<at::Tensor> values;
  for (const Variable& variable : variables) {
    values.push_back(variable.component(0).detach().clone(at::MemoryFormat::Contiguous));
  }
  if (values.empty()) return;
  processes.broadcast(values, 0)->wait();
  if (processes.rank() == 0) return;
  for (std::size_t i = 0; i < values.size(); ++i) {
    // `assign` divides this over all components, so that each gets the first one's value.
    const bool is_shared_out = variables[i].synchronization() == Synchronization::kOnRead &&
                               variables[i].aggregation() == Aggregation::kSum;
    variables[i].assign(is_shared_out ? values[i] * peers.num_components : values[i]);
  }
}

}  // namespace brigade::variables
