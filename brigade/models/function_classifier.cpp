#include "brigade/models/function_classifier.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/randint.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/comm/replica.h"
#include "brigade/layers/end_points.h"
#include "brigade/variables/graph.h"
#include "brigade/variables/variable_store.h"

namespace brigade::models {
namespace {

using variables::Graph;
using variables::Mode;
using variables::Reuse;
using variables::VariableStore;

std::unique_ptr<VariableStore> make_store() {
  const auto seed = at::randint(std::numeric_limits<std::int64_t>::max(), {1}, at::kLong);
  return std::make_unique<VariableStore>(variables::VariableStoreOptions{
      .seed = static_cast<std::uint64_t>(seed.item<std::int64_t>())});
}

/// The store has one component of each variable, in every replica.
std::optional<comm::Replica> with_one_component() {
  if (comm::current_replica() == nullptr) return std::nullopt;
  comm::Replica replica = *comm::current_replica();
  replica.local_id = 0;
  return replica;
}

/// Names of tensors in a collection are complete; a slash says so.
void pass_on_end_points(const Graph& from, Graph& to) {
  for (const variables::GraphTensor& point : from.collection(layers::kEndPoints))
    to.add_to_collection(layers::kEndPoints, point.name + "/", point.value);
}

}  // namespace

FunctionClassifier::FunctionClassifier(const std::string& name, ClassifierFunction function,
                                       const at::Tensor& example)
    : Classifier(name), function_(std::move(function)), store_(make_store()) {
  {
    const at::NoGradGuard no_gradients;
    const base::AmbientScope<const comm::Replica> outside(comm::kReplicaSlot, nullptr);
    Graph graph(*store_);
    const auto opened = graph.as_default();
    function_(example, Mode::kTraining);
  }
  for (const auto& variable : store_->variables()) {
    check_argument(variable.name().find('.') == std::string::npos, "FunctionClassifier: variable ",
                   base::quoted(variable.name()),
                   " has a dot in its name, which libtorch's modules do not allow");
    if (variable.trainable()) {
      register_parameter(variable.name(), variable.component(0));
    } else {
      register_buffer(variable.name(), variable.component(0));
    }
  }
}

FunctionClassifier::~FunctionClassifier() = default;

at::Tensor FunctionClassifier::forward(const at::Tensor& batch) {
  const std::optional<comm::Replica> replica = with_one_component();
  const base::AmbientScope<const comm::Replica> inside(comm::kReplicaSlot,
                                                       replica ? &*replica : nullptr);
  Graph* const outer = variables::current_graph();
  Graph graph(*store_, {.reuse = Reuse::kYes});
  const auto opened = graph.as_default();
  at::Tensor logits = function_(batch, is_training() ? Mode::kTraining : Mode::kEvaluation);
  graph.run_update_ops();
  if (outer != nullptr) pass_on_end_points(graph, *outer);
  return logits;
}

}  // namespace brigade::models
