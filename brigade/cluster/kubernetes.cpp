#include "brigade/cluster/kubernetes.h"

#include <map>
#include <string>
#include <utility>

#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/rank_assignment.h"
#include "brigade/cluster/variable_reader.h"

namespace brigade::cluster {
namespace {

constexpr const char* kIndex = "JOB_COMPLETION_INDEX";
constexpr int kDefaultPort = 29400;

// Kubernetes calls the pods of an indexed job <job>-<index>.
std::string job_name(const VariableReader& variables, int index) {
  if (variables.has(kKubernetesJobVariable)) {
    return variables.required_text(kKubernetesJobVariable);
  }
  const std::string host = variables.text("HOSTNAME").value_or("");
  const std::string end = base::str_cat("-", index);
  if (host.size() <= end.size() || !host.ends_with(end)) {
    variables.refuse(base::str_cat("HOSTNAME is ", base::quoted(host), ", which does not end in ",
                                   base::quoted(end), "; set ", kKubernetesJobVariable,
                                   " to the job's name."));
  }
  return host.substr(0, host.size() - end.size());
}

ClusterSpec pods(const std::string& job, const std::string& service, int count, int port) {
  ClusterSpec::Tasks workers;
  for (int index = 0; index < count; ++index) {
    workers.emplace(index, base::str_cat(job, "-", index, ".", service, ":", port));
  }
  return ClusterSpec(std::map<std::string, ClusterSpec::Tasks>{{"worker", std::move(workers)}});
}

}  // namespace

std::optional<ClusterConfig> resolve_kubernetes(const Environment& environment) {
  const VariableReader variables(environment, "the environment of the Kubernetes job");
  if (!variables.has(kKubernetesCompletionsVariable)) return std::nullopt;
  if (!variables.has(kIndex)) {
    variables.refuse(base::str_cat(kKubernetesCompletionsVariable, " is set, but ", kIndex,
                                   " is not; give the job `completionMode: Indexed`."));
  }
  ClusterConfig counted;
  variables.read_rank(counted, kIndex, kKubernetesCompletionsVariable);
  const int port = variables.number(kKubernetesPortVariable, 1).value_or(kDefaultPort);
  const std::string service = variables.required_text(kKubernetesServiceVariable);
  const std::string job = job_name(variables, counted.rank);
  return assign_rank({pods(job, service, counted.world_size, port), counted.task},
                     variables.source());
}

}  // namespace brigade::cluster
