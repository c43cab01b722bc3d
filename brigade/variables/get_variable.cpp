#include "brigade/variables/get_variable.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/variables/variable_partition.h"
#include "brigade/variables/variable_request.h"

namespace brigade::variables {

Variable get_variable(const std::string& name,
                      const std::optional<std::vector<std::int64_t>>& shape,
                      const VariableOptions& options) {
  Graph& graph = require_graph("get_variable");
  const VariableScope scope = get_variable_scope();
  const GetVariableRequest request = make_request(scope, name, shape, options);
  const std::optional<Partition> cut = partition_in_force(graph.store(), scope, request);
  if (!cut) return fetch(graph, scope, request);
  check_state(
      num_parts(*cut) == 1,
      base::str_cat("Variable '", request.name, "' is split into ", num_parts(*cut),
                    " partitions and is not a single variable: use get_partitioned_variable, or "
                    "get_value for its value."));
  return fetch_parts(graph, scope, request, *cut).parts().front();
}

}  // namespace brigade::variables
