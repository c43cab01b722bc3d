#include "brigade/distribute/worker_group.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::distribute {

void check_agreement(const WorkerGroup* workers, const comm::Facts& own, const Compared& compared) {
  if (workers == nullptr) return;
  const auto found = comm::find_difference(*workers->communicator, own);
  if (!found) return;
  const auto& members = workers->membership->members();
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("The workers' ", compared.what, " differ: ",
                            cluster::to_string(members[static_cast<std::size_t>(found->rank)].task),
                            " has ", found->name, " ", found->value.value_or("nothing"), " and ",
                            cluster::to_string(members.front().task), " has ",
                            found->first_value.value_or("nothing"), "; ", compared.advice));
}

}  // namespace brigade::distribute
