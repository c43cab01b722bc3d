#include "brigade/distribute/created_model.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::distribute {

namespace {

std::string_view mode_name(bool is_training) {
  return is_training ? "training" : "evaluation";
}

}  // namespace

std::vector<ModuleMode> module_modes(std::span<const std::shared_ptr<torch::nn::Module>> replicas) {
  std::vector<torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>>> modules;
  for (const auto& replica : replicas) modules.push_back(replica->named_modules());
  std::vector<ModuleMode> modes;
  for (const auto& first : modules.front()) {
    ModuleMode mode{.name = first.key(), .is_training = {}};
    for (const auto& of_replica : modules) {
      const auto* same = of_replica.find(first.key());
      if (same != nullptr)
        mode.is_training.emplace_back([module = *same] { return module->is_training(); });
    }
    if (mode.is_training.size() == replicas.size()) modes.push_back(std::move(mode));
  }
  return modes;
}

CreatedModel::CreatedModel(StrategyRef owner, std::vector<variables::Variable> variables,
                           std::vector<ModuleMode> modes)
    : owner_(std::move(owner)), variables_(std::move(variables)), modes_(std::move(modes)) {
  for (const variables::Variable& variable : variables_) {
    if (variable.storage()) parameters_.push_back(variable);
  }
}

std::size_t CreatedModel::calling_replica() const {
  const ReplicaContext* context = current_replica_context();
  if (context == nullptr) return 0;
  owner_.check(*context, "A model");
  return static_cast<std::size_t>(context->local_id);
}

void CreatedModel::check_modes() const {
  for (const ModuleMode& mode : modes_) {
    const bool first = mode.is_training.front()();
    for (std::size_t replica = 1; replica < mode.is_training.size(); ++replica) {
      if (mode.is_training[replica]() == first) continue;
      const std::string subject = mode.name.empty()
                                      ? std::string("A model")
                                      : base::str_cat("The submodule '", mode.name, "' of a model");
      throw Error(ErrorCode::kFailedPrecondition, subject, " of ", owner_.description(), " is in ",
                  mode_name(first), " mode in replica 0 and in ", mode_name(!first),
                  " mode in replica ", replica,
                  ": model->eval() and model->train() outside of Strategy::run switch only replica "
                  "0. Write model.eval() or model.train(), which switch every replica; to switch a "
                  "submodule, switch it in each model.replica(i).");
    }
  }
}

void CreatedModel::check_untouched(int replica) const {
  for (const variables::Variable& variable : parameters_) variable.check_untouched(replica);
}

}  // namespace brigade::distribute
