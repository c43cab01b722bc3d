#pragma once

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <memory>
#include <utility>
#include <vector>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/client/parameter_client.h"
#include "brigade/ps/testing/local_service.h"

/// A job with a small model whose updates are exact: stochastic gradient descent with a rate of 1
/// and gradients of whole numbers, in float64. So a value says how many pushes were applied.
namespace brigade::ps::testing {

inline const cluster::Task kChief = {.job = "chief", .index = 0};
inline const cluster::Task kWorker0 = {.job = "worker", .index = 0};
inline const cluster::Task kWorker1 = {.job = "worker", .index = 1};
inline const std::vector<cluster::Task> kTasks = {kChief, kWorker0, kWorker1};

/// All zeros; "count" is not trainable.
inline std::vector<Creation> small_model() {
  return {{.name = "weights", .value = at::zeros({2, 3}, at::kDouble)},
          {.name = "bias", .value = at::zeros({3}, at::kDouble)},
          {.name = "count", .value = at::zeros({}, at::kLong), .is_trainable = false},
          {.name = "scale", .value = at::zeros({}, at::kDouble)},
          {.name = "offset", .value = at::zeros({4}, at::kDouble)}};
}

inline std::vector<PlacedVariable> small_placement(int servers) {
  std::vector<VariableSize> sizes;
  for (const Creation& each : small_model())
    sizes.push_back({.name = each.name,
                     .bytes = static_cast<std::int64_t>(each.value.nbytes()),
                     .is_trainable = each.is_trainable});
  return place_variables(sizes, servers);
}

/// A gradient of `value` for each variable that is trainable.
inline std::vector<at::Tensor> small_gradients(double value) {
  std::vector<at::Tensor> gradients;
  for (const Creation& each : small_model())
    gradients.push_back(each.is_trainable ? at::full(each.value.sizes(), value, at::kDouble)
                                          : at::Tensor());
  return gradients;
}

inline std::unique_ptr<ParameterClient> make_client(LocalServers& servers,
                                                    const cluster::Task& task,
                                                    ParameterClientOptions options = {}) {
  return std::make_unique<ParameterClient>(task, servers.connect(), std::move(options));
}

/// A client that has created the model, and lets workers begin.
inline std::unique_ptr<ParameterClient> make_chief(LocalServers& servers, const JobConfig& job,
                                                   ParameterClientOptions options = {}) {
  auto chief = make_client(servers, kChief, std::move(options));
  chief->create(small_model(), small_placement(servers.size()),
                *optim::Sgd{.learning_rate = 1}.rule(), job);
  chief->set_ready();
  return chief;
}

/// A client that has waited for the chief.
inline std::unique_ptr<ParameterClient> make_worker(LocalServers& servers,
                                                    const cluster::Task& task, const JobConfig& job,
                                                    ParameterClientOptions options = {}) {
  auto worker = make_client(servers, task, std::move(options));
  worker->wait_ready(small_placement(servers.size()), job);
  return worker;
}

}  // namespace brigade::ps::testing
