#include "apps/brigade/initial_weights.h"

#include <algorithm>

#include "brigade/models/export_weights.h"
#include "brigade/models/torchvision_names.h"
#include "brigade/train/evaluation/checkpoint_evaluation.h"

namespace brigade::command {
namespace {

io::Path weights_at(const io::Path& path) {
  const io::Path saved = path / "weights.safetensors";
  return io::posix_file_system()->exists(saved) ? saved : path;
}

checkpoint::WeightsFile read(const io::Path& path, checkpoint::HashMismatch mismatch) {
  const auto files = io::posix_file_system();
  if (checkpoint::is_weights_file(*files, path))
    return checkpoint::read_weights_file(files, path, mismatch);
  if (files->exists(path)) return {.tensors = train::open_checkpoint(files, path).tensors()};
  throw Error(ErrorCode::kNotFound, "--init-from: there is nothing at ", path);
}

/// The biases of the layer of the logits, which every model of the registry creates last.
std::optional<std::string> last_biases(const std::string& model,
                                       const models::ModelOptions& options) {
  std::optional<std::string> last;
  for (const auto& parameter : models::make_model(model, options)->named_parameters())
    if (parameter.value().dim() == 1) last = parameter.key();
  return last;
}

}  // namespace

InitialWeights::InitialWeights(const io::Path& path, checkpoint::HashMismatch mismatch)
    : path_(weights_at(path)), file_(read(path_, mismatch)) {}

const at::Tensor* InitialWeights::find(const std::string& name) const {
  const auto found = std::ranges::find(file_.tensors, name, &checkpoint::NamedTensor::name);
  return found == file_.tensors.end() ? nullptr : &found->tensor;
}

std::optional<models::Original> InitialWeights::original(const std::string& model) const {
  if (model != "inception_v3") return std::nullopt;
  const auto record = models::find_weights_record(file_.metadata, path_.string());
  if (record && record->model == model) return record->options.original;
  if (models::names_in(file_, model) == models::WeightsNames::kTorchvision)
    return models::Original::kTorchvision;
  // Only torchvision's has factors in batch norm.
  const bool has_gamma = std::ranges::any_of(
      file_.tensors, [](const auto& each) { return each.name.ends_with("/BatchNorm/gamma"); });
  return has_gamma ? models::Original::kTorchvision : models::Original::kTfSlim;
}

models::ModelOptions InitialWeights::fitting(const std::string& model,
                                             models::ModelOptions options) const {
  if (const auto found = original(model)) options.original = *found;
  const std::optional<std::string> ours = last_biases(model, options);
  if (!ours) return options;
  const bool is_torchvisions = models::names_in(file_, model) == models::WeightsNames::kTorchvision;
  const std::string name = is_torchvisions ? models::torchvision_names(model).at(*ours) : *ours;
  const at::Tensor* biases = find(name);
  if (biases != nullptr && biases->dim() == 1 && biases->size(0) > 0)
    options.classes = biases->size(0);
  return options;
}

void InitialWeights::assign(std::span<const variables::Variable> variables,
                            const std::string& model,
                            const std::vector<std::string>& excluded) const {
  models::import_weights(
      file_, path_.string(), variables,
      {.model = model, .names = models::names_in(file_, model), .restore = {.exclude = excluded}});
}

}  // namespace brigade::command
