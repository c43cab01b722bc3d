#pragma once

#include <optional>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/environment_variables.h"

namespace brigade::cluster {

/// Variables of the pod template of an indexed job, beside the JOB_COMPLETION_INDEX that Kubernetes
/// sets by itself.
inline constexpr const char* kKubernetesCompletionsVariable = "BRIGADE_KUBERNETES_COMPLETIONS";
inline constexpr const char* kKubernetesServiceVariable = "BRIGADE_KUBERNETES_SERVICE";
inline constexpr const char* kKubernetesJobVariable = "BRIGADE_KUBERNETES_JOB";
inline constexpr const char* kKubernetesPortVariable = "BRIGADE_KUBERNETES_PORT";

/// The pods of a Kubernetes indexed job as workers: BRIGADE_KUBERNETES_COMPLETIONS of them (the
/// job's `completions`), reached under the DNS names that a headless service gives them,
/// "<job>-<index>.<service>", at BRIGADE_KUBERNETES_PORT (29400 if unset). The service's name is
/// BRIGADE_KUBERNETES_SERVICE (the pods' `subdomain`); the job's is BRIGADE_KUBERNETES_JOB, else
/// taken from the pod's HOSTNAME. Nothing without the completions, because the pods of an indexed
/// job may also run separately. Throws kInvalidArgument, naming the missing or wrong variable.
std::optional<ClusterConfig> resolve_kubernetes(const Environment& environment);

}  // namespace brigade::cluster
