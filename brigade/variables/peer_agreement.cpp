#include "brigade/variables/peer_agreement.h"

#include <ATen/core/grad_mode.h>

#include <sstream>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/small_values.h"

namespace brigade::variables {

namespace {

/// One line a variable: what must be equal everywhere.
std::string description(std::span<const Variable> variables) {
  std::ostringstream text;
  for (const Variable& variable : variables) {
    text << variable.name() << ' ' << variable.dtype() << variable.shape() << '\n';
  }
  return text.str();
}

std::string line_or_none(std::istringstream& lines) {
  std::string line;
  return std::getline(lines, line) ? line : "no more variables";
}

[[noreturn]] void throw_difference(int rank, const std::string& theirs, const std::string& firsts) {
  std::istringstream their_lines(theirs), first_lines(firsts);
  std::string theirs_here, firsts_here;
  do {
    theirs_here = line_or_none(their_lines);
    firsts_here = line_or_none(first_lines);
  } while (theirs_here == firsts_here);
  throw Error(ErrorCode::kFailedPrecondition,
              base::str_cat("The processes made different variables: rank ", rank, " has ",
                            theirs_here, " where rank 0 has ", firsts_here,
                            ". Every process must build the same model."));
}

}  // namespace

void agree_with_peers(std::span<const Variable> variables, const Peers& peers) {
  const at::NoGradGuard no_grad;
  comm::Communicator& processes = *peers.communicator;
  const auto descriptions = comm::all_gather_texts(processes, description(variables));
  const std::string& firsts = descriptions.front();
  for (std::size_t rank = 1; rank < descriptions.size(); ++rank) {
    if (descriptions[rank] != firsts)
      throw_difference(static_cast<int>(rank), descriptions[rank], firsts);
  }
  std::vector<at::Tensor> values;
  for (const Variable& variable : variables) {
    values.push_back(variable.component(0).detach().clone(at::MemoryFormat::Contiguous));
  }
  if (values.empty()) return;
  processes.broadcast(values, 0)->wait();
  if (processes.rank() == 0) return;
  for (std::size_t i = 0; i < values.size(); ++i) {
    // What assign will share out over all components, so that each gets the first one's value.
    const bool is_shared_out = variables[i].synchronization() == Synchronization::kOnRead &&
                               variables[i].aggregation() == Aggregation::kSum;
    variables[i].assign(is_shared_out ? values[i] * peers.num_components : values[i]);
  }
}

}  // namespace brigade::variables
