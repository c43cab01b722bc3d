#include "brigade/ps/store/store_snapshot.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/optim/rule_config.h"
#include "brigade/ps/store/store_keys.h"

namespace brigade::ps {

namespace {

std::string value_name(std::string_view variable) {
  return base::str_cat("value/", variable);
}
std::string slot_name(std::string_view variable, std::string_view slot) {
  return base::str_cat("slot/", slot, "/", variable);
}
std::string offer_name(std::size_t offer, std::string_view variable) {
  return base::str_cat("offer/", offer, "/", variable);
}

std::string row_indices_name(std::size_t offer, std::string_view variable) {
  return base::str_cat("offer_indices/", offer, "/", variable);
}
std::string row_values_name(std::size_t offer, std::string_view variable) {
  return base::str_cat("offer_rows/", offer, "/", variable);
}

/// The tensors of a snapshot by name.
class SnapshotTensors {
 public:
  explicit SnapshotTensors(const checkpoint::Checkpoint& snapshot) : path_(snapshot.path()) {
    for (auto& [name, tensor] : snapshot.tensors(checkpoint::Section::kTensors))
      tensors_.emplace(name, tensor);
  }
  const at::Tensor& at(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found != tensors_.end()) return found->second;
    throw Error(ErrorCode::kDataLoss, "The server's snapshot ", path_.string(), " lacks ",
                base::quoted(name), ".");
  }

 private:
  const io::Path path_;
  std::map<std::string, at::Tensor> tensors_;
};

io::StateTree save_variable(const SavedVariable& variable) {
  io::StateTree saved;
  saved[keys::kTrainable] = variable.settings.is_trainable;
  saved[keys::kUpdates] = variable.state.updates;
  if (variable.settings.learning_rate)
    saved[keys::kLearningRate] = *variable.settings.learning_rate;
  if (variable.settings.weight_decay) saved[keys::kWeightDecay] = *variable.settings.weight_decay;
  return saved;
}

std::unique_ptr<Parameter> load_variable(const std::string& name, const io::StateTree& saved,
                                         const SnapshotTensors& tensors,
                                         const optim::UpdateRule& rule) {
  Parameter::Settings settings{.is_trainable = saved.as_bool(keys::kTrainable)};
  if (saved.has(keys::kLearningRate)) settings.learning_rate = saved.as_double(keys::kLearningRate);
  if (saved.has(keys::kWeightDecay)) settings.weight_decay = saved.as_double(keys::kWeightDecay);
  Parameter::State own{.value = tensors.at(value_name(name)),
                       .slots = {},
                       .updates = saved.as_int64(keys::kUpdates)};
  if (settings.is_trainable)
    for (const optim::SlotSpec& slot : rule.slots())
      own.slots.push_back(tensors.at(slot_name(name, slot.name)));
  return std::make_unique<Parameter>(std::move(own), settings, rule);
}

void save_rows(const std::vector<RowGradient>& rows, std::size_t offer, io::StateTree& tree,
               checkpoint::Contents& contents) {
  tree[keys::kRows] = io::StateTree::list();
  for (const auto& [name, indices, values] : rows) {
    tree[keys::kRows].push_back(name);
    contents.tensors.push_back({row_indices_name(offer, name), indices});
    contents.tensors.push_back({row_values_name(offer, name), values});
  }
}

void save_offers(const GradientOffers& offers, checkpoint::Contents& contents) {
  io::StateTree& saved = contents.state[keys::kOffers] = io::StateTree::list();
  for (const GradientOffers::Offer& each : offers.offers()) {
    io::StateTree tree;
    tree[keys::kStep] = each.step;
    tree[keys::kWorker] = each.from.worker;
    tree[keys::kIndex] = each.from.index;
    tree[keys::kVariables] = io::StateTree::list();
    for (const auto& [name, gradient] : *each.gradients) {
      tree[keys::kVariables].push_back(name);
      contents.tensors.push_back({offer_name(saved.size(), name), gradient});
    }
    if (each.rows && !each.rows->empty()) save_rows(*each.rows, saved.size(), tree, contents);
    saved.push_back(std::move(tree));
  }
}

/// Snapshots of earlier versions have none.
std::vector<RowGradient> load_rows(const io::StateTree& offer, std::size_t index,
                                   const SnapshotTensors& tensors) {
  std::vector<RowGradient> rows;
  if (!offer.has(keys::kRows)) return rows;
  for (const io::StateTree& name : offer.as_list(keys::kRows))
    rows.push_back({.name = name.as_string(),
                    .indices = tensors.at(row_indices_name(index, name.as_string())),
                    .values = tensors.at(row_values_name(index, name.as_string()))});
  return rows;
}

GradientOffers load_offers(const io::StateTree& state, const SnapshotTensors& tensors) {
  GradientOffers offers;
  if (!state.has(keys::kOffers)) return offers;
  std::size_t index = 0;
  for (const io::StateTree& saved : state.as_list(keys::kOffers)) {
    std::vector<checkpoint::NamedTensor> gradients;
    for (const io::StateTree& name : saved.as_list(keys::kVariables))
      gradients.push_back({name.as_string(), tensors.at(offer_name(index, name.as_string()))});
    offers.put({.step = saved.as_int64(keys::kStep),
                .from = {.worker = static_cast<int>(saved.as_int64(keys::kWorker)),
                         .index = static_cast<int>(saved.as_int64(keys::kIndex))},
                .gradients = std::make_shared<const std::vector<checkpoint::NamedTensor>>(
                    std::move(gradients)),
                .rows = std::make_shared<const std::vector<RowGradient>>(
                    load_rows(saved, index, tensors))});
    ++index;
  }
  return offers;
}

}  // namespace

checkpoint::Contents snapshot_contents(const StoreState& state,
                                       std::span<const SavedVariable> variables) {
  checkpoint::Contents contents;
  if (state.rule) contents.state[keys::kRule] = state.rule->config();
  contents.state[keys::kJob] = state.job;
  contents.state[keys::kLearningRate] = state.learning_rate;
  contents.state[keys::kReady] = state.is_ready;
  contents.state[keys::kStep] = state.step;
  contents.state[keys::kLedger] = state.ledger.save();
  io::StateTree& finished = contents.state[keys::kFinished] = io::StateTree::list();
  for (const auto& [worker, incarnation] : state.finished) {
    io::StateTree each;
    each[keys::kWorker] = worker;
    each[keys::kIncarnation] = incarnation;
    finished.push_back(std::move(each));
  }
  if (state.last_decision) contents.state[keys::kDecision] = state.last_decision->save();
  io::StateTree& saved = contents.state[keys::kVariables] = io::StateTree::dict();
  for (const SavedVariable& each : variables) {
    saved[each.name] = save_variable(each);
    contents.tensors.push_back({value_name(each.name), each.state.value});
    for (std::size_t slot = 0; slot < each.state.slots.size(); ++slot)
      contents.tensors.push_back(
          {slot_name(each.name, state.rule->slots()[slot].name), each.state.slots[slot]});
  }
  save_offers(state.offers, contents);
  return contents;
}

/// Snapshots that were written before there were jobs lack their fields; one that was made for a
/// replica before the chief had created anything has no rule.
LoadedSnapshot load_snapshot(const checkpoint::Checkpoint& snapshot) {
  const io::StateTree saved = snapshot.state();
  const SnapshotTensors tensors(snapshot);
  LoadedSnapshot loaded;
  StoreState& state = loaded.state;
  if (saved.has(keys::kRule)) state.rule = optim::rule_from_config(saved.at(keys::kRule));
  state.learning_rate = saved.as_double(keys::kLearningRate);
  state.ledger.restore(saved.at(keys::kLedger));
  if (saved.has(keys::kJob)) state.job = saved.at(keys::kJob);
  if (saved.has(keys::kReady)) state.is_ready = saved.as_bool(keys::kReady);
  if (saved.has(keys::kStep)) state.step = saved.as_int64(keys::kStep);
  if (saved.has(keys::kFinished))
    for (const io::StateTree& each : saved.as_list(keys::kFinished))
      state.finished[static_cast<int>(each.as_int64(keys::kWorker))] =
          each.as_int64(keys::kIncarnation);
  if (saved.has(keys::kDecision))
    state.last_decision = coordination::StepDecision::restore(saved.at(keys::kDecision));
  state.offers = load_offers(saved, tensors);
  for (const auto& [name, variable] : saved.at(keys::kVariables).as_dict())
    loaded.parameters.emplace(name, load_variable(name, variable, tensors, *state.rule));
  return loaded;
}

}  // namespace brigade::ps
