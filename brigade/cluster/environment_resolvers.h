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

/// The cluster that `brigade launch` set up for this process (environment_variables.h); nothing
/// without BRIGADE_RENDEZVOUS. The launcher serves the rendezvous. Throws kInvalidArgument, naming
/// the missing or wrong variable.
std::optional<ClusterConfig> resolve_launched(const Environment& environment);

/// The cluster that the variable `TF_CONFIG` describes (`parse_cluster_json` says its form);
/// nothing if it is not set or has no cluster, which means one worker, as in TensorFlow.
/// Throws kInvalidArgument, as `parse_cluster_json` and `assign_rank` do. TensorFlow:
/// tf.distribute.cluster_resolver.TFConfigClusterResolver.
std::optional<ClusterConfig> resolve_tf_config(const Environment& environment);

/// Reads the environment of torchrun, which Kubeflow's PyTorchJob and others also set: RANK,
/// WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and optionally LOCAL_RANK, LOCAL_WORLD_SIZE and
/// TORCHELASTIC_RESTART_COUNT; nothing without RANK. Rank 0 serves the rendezvous at
/// MASTER_ADDR:MASTER_PORT, or at the next port if torchrun uses that one for its own store
/// (TORCHELASTIC_USE_AGENT_STORE). Throws kInvalidArgument, naming the missing or wrong variable.
std::optional<ClusterConfig> resolve_torchrun(const Environment& environment);

/// Reads the environment of Open MPI's mpirun: OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK and
/// _LOCAL_SIZE; nothing without the first. Rank 0 serves the rendezvous: on one host at 127.0.0.1;
/// on several at MASTER_ADDR, which must name rank 0's host (`mpirun -x MASTER_ADDR=...`), because
/// Open MPI does not set it. The port is MASTER_PORT, else derived from the job's name. Throws
/// kInvalidArgument, naming the missing or wrong variable.
std::optional<ClusterConfig> resolve_open_mpi(const Environment& environment);

/// The pods of a Kubernetes indexed job as workers: BRIGADE_KUBERNETES_COMPLETIONS of them (the
/// job's `completions`), reached under the DNS names that a headless service gives them,
/// "<job>-<index>.<service>", at BRIGADE_KUBERNETES_PORT (29400 if unset). The service's name is
/// BRIGADE_KUBERNETES_SERVICE (the pods' `subdomain`); the job's is BRIGADE_KUBERNETES_JOB, else
/// taken from the pod's HOSTNAME. Nothing without the completions, because the pods of an indexed
/// job may also run separately. Throws kInvalidArgument, naming the missing or wrong variable.
std::optional<ClusterConfig> resolve_kubernetes(const Environment& environment);

}  // namespace brigade::cluster
