#include "brigade/models/export_weights.h"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <map>
#include <set>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/models/torchvision_names.h"

namespace brigade::models {
namespace {

using base::str_cat;
using checkpoint::NamedTensor;
using variables::Variable;

constexpr std::string_view kNamesKey = "brigade_weights_names";
constexpr std::string_view kTorchvisionName = "torchvision";
constexpr std::string_view kRunningMean = ".running_mean";
constexpr std::string_view kBatches = ".num_batches_tracked";
constexpr std::string_view kGlobalStep = "global_step";

using Tensors = std::map<std::string, at::Tensor>;
using VariableNames = std::map<std::string, std::string>;

/// "fc.weight", "AuxLogits.fc.weight".
bool is_linear(std::string_view theirs) {
  return theirs == "fc.weight" || theirs.ends_with(".fc.weight");
}

at::Tensor as_linear(const at::Tensor& value) {
  const bool is_1x1 = value.dim() == 4 && value.size(2) == 1 && value.size(3) == 1;
  return is_1x1 ? value.flatten(1) : value;
}

Tensors renamed_to_torchvision(std::string_view model, std::span<const NamedTensor> weights) {
  const VariableNames names = torchvision_names(model);
  Tensors result;
  std::vector<std::string> unknown;
  for (const NamedTensor& each : weights) {
    if (each.name == kGlobalStep) continue;
    const auto theirs = names.find(each.name);
    if (theirs == names.end()) {
      unknown.push_back(each.name);
    } else {
      result.emplace(theirs->second,
                     is_linear(theirs->second) ? as_linear(each.tensor) : each.tensor);
    }
  }
  check_argument(
      unknown.empty(), "to_torchvision: the model ", base::quoted(model), " has no ",
      base::listed(unknown, ", ", [](const std::string& name) { return base::quoted(name); }));
  return result;
}

/// What PyTorch's batch norm has besides.
void complete_batch_norms(Tensors& tensors) {
  Tensors added;
  for (const auto& [name, mean] : tensors) {
    if (!name.ends_with(kRunningMean)) continue;
    const std::string layer = name.substr(0, name.size() - kRunningMean.size());
    added.emplace(layer + ".weight", at::ones_like(mean));
    added.emplace(layer + ".bias", at::zeros_like(mean));
    added.emplace(str_cat(layer, kBatches), at::zeros({}, at::kLong));
  }
  tensors.merge(added);  // keeps what is there
}

std::vector<NamedTensor> named(const Tensors& tensors) {
  std::vector<NamedTensor> result;
  for (const auto& [name, tensor] : tensors) result.push_back({name, tensor});
  return result;
}

at::IntArrayRef without_trailing_ones(at::IntArrayRef shape) {
  while (!shape.empty() && shape.back() == 1) shape = shape.slice(0, shape.size() - 1);
  return shape;
}

/// In the variable's shape, if it differs in trailing ones.
at::Tensor shaped_for(const Variable& variable, const at::Tensor& value) {
  const bool is_same =
      without_trailing_ones(variable.shape()) == without_trailing_ones(value.sizes());
  return is_same ? value.reshape(variable.shape()) : value;
}

/// That leaving out a factor or an offset of a batch norm that the variables have changes nothing.
void check_neutral(std::string_view ours, std::string_view theirs, const at::Tensor& value,
                   const std::map<std::string, Variable>& variables) {
  const auto slash = ours.rfind('/');
  if (slash == std::string_view::npos) return;
  const std::string_view kind = ours.substr(slash + 1);
  const bool is_gamma = kind == "gamma";
  if (!is_gamma && kind != "beta") return;
  if (!variables.contains(str_cat(ours.substr(0, slash), "/moving_mean"))) return;
  if (value.eq(is_gamma ? 1 : 0).all().item<bool>()) return;
  refuse("from_torchvision: the model has no variable ", base::quoted(ours), " for ",
         base::quoted(theirs), ", which is not all ", is_gamma ? "ones" : "zeros",
         ": make it as torchvision's (ModelOptions::original)");
}

std::vector<NamedTensor> weights_of(std::span<const Variable> variables) {
  std::vector<NamedTensor> weights;
  for (const Variable& each : variables) weights.push_back({each.name(), each.read()});
  return weights;
}

/// What the file's metadata says.
std::optional<WeightsNames> recorded_names(const checkpoint::WeightsFile& file) {
  const auto found = file.metadata.find(std::string(kNamesKey));
  if (found == file.metadata.end()) return std::nullopt;
  return found->second == kTorchvisionName ? WeightsNames::kTorchvision : WeightsNames::kBrigade;
}

std::string model_of(const std::optional<WeightsRecord>& record, const ImportOptions& options,
                     std::string_view source) {
  if (!record || record->model == options.model) return options.model;
  if (options.model.empty()) return record->model;
  refuse(source, ": its weights are of the model ", base::quoted(record->model), "; expected ",
         base::quoted(options.model));
}

}  // namespace

std::vector<NamedTensor> to_torchvision(std::string_view model,
                                        std::span<const NamedTensor> weights) {
  Tensors tensors = renamed_to_torchvision(model, weights);
  complete_batch_norms(tensors);
  return named(tensors);
}

std::vector<NamedTensor> from_torchvision(std::string_view model,
                                          std::span<const NamedTensor> state_dict,
                                          std::span<const Variable> variables) {
  VariableNames ours;
  for (const auto& [name, theirs] : torchvision_names(model)) ours.emplace(theirs, name);
  std::map<std::string, Variable> known;
  for (const Variable& each : variables) known.emplace(each.name(), each);
  Tensors result;
  for (const NamedTensor& each : state_dict) {
    if (each.name.ends_with(kBatches)) continue;
    const auto name = ours.find(each.name);
    if (name == ours.end()) {
      result.emplace(each.name, each.tensor);
      continue;
    }
    const auto variable = known.find(name->second);
    if (variable == known.end()) {
      check_neutral(name->second, each.name, each.tensor, known);
      result.emplace(name->second, each.tensor);
    } else {
      result.emplace(name->second, shaped_for(variable->second, each.tensor));
    }
  }
  return named(result);
}

void export_weights(io::FileSystem& files, const io::Path& path,
                    std::span<const NamedTensor> weights, const WeightsRecord& record,
                    WeightsNames names) {
  const bool is_torchvisions = names == WeightsNames::kTorchvision;
  const std::vector<NamedTensor> tensors =
      is_torchvisions ? to_torchvision(record.model, weights)
                      : std::vector<NamedTensor>(weights.begin(), weights.end());
  std::map<std::string, std::string> metadata = {
      {"format", "pt"},
      {std::string(kWeightsRecordKey), to_json(record)},
      {std::string(checkpoint::kWeightsHashKey), checkpoint::weights_sha256(tensors)}};
  if (is_torchvisions) metadata.emplace(kNamesKey, kTorchvisionName);
  checkpoint::save_safetensors(files, path, tensors, metadata);
}

void export_weights(io::FileSystem& files, const io::Path& path,
                    std::span<const Variable> variables, const WeightsRecord& record,
                    WeightsNames names) {
  export_weights(files, path, weights_of(variables), record, names);
}

ImportedWeights import_weights(std::shared_ptr<const io::FileSystem> files, const io::Path& path,
                               std::span<const Variable> variables, const ImportOptions& options) {
  return import_weights(
      checkpoint::read_weights_file(std::move(files), path, options.hash_mismatch), path.string(),
      variables, options);
}

ImportedWeights import_weights(checkpoint::WeightsFile file, std::string_view source,
                               std::span<const Variable> variables, const ImportOptions& options) {
  ImportedWeights result{.report = {}, .record = find_weights_record(file.metadata, source)};
  const std::string model = model_of(result.record, options, source);
  const auto names =
      options.names ? *options.names : recorded_names(file).value_or(WeightsNames::kBrigade);
  if (names == WeightsNames::kTorchvision)
    file.tensors = from_torchvision(model, file.tensors, variables);
  checkpoint::RestoreOptions restore = options.restore;
  restore.layout = file.layout();
  result.report = checkpoint::restore_variables(file.tensors, source, variables, restore);
  return result;
}

WeightsNames names_in(const checkpoint::WeightsFile& file, std::string_view model) {
  if (const auto recorded = recorded_names(file)) return *recorded;
  const std::vector<std::string> known = torchvision_models();
  if (std::ranges::find(known, model) == known.end()) return WeightsNames::kBrigade;
  const VariableNames names = torchvision_names(model);
  std::set<std::string_view> theirs;
  for (const auto& [name, their_name] : names) theirs.insert(their_name);
  const auto ours_count = std::ranges::count_if(
      file.tensors, [&](const NamedTensor& each) { return names.contains(each.name); });
  const auto theirs_count = std::ranges::count_if(
      file.tensors, [&](const NamedTensor& each) { return theirs.contains(each.name); });
  return theirs_count > ours_count ? WeightsNames::kTorchvision : WeightsNames::kBrigade;
}

}  // namespace brigade::models
