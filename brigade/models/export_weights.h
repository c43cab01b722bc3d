#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/checkpoint/restore.h"
#include "brigade/checkpoint/safetensors.h"
#include "brigade/checkpoint/weights_file.h"
#include "brigade/checkpoint/weights_hash.h"
#include "brigade/io/file_system.h"
#include "brigade/models/weights_record.h"
#include "brigade/variables/variable.h"

/// Weights of models of the registry as files for other programs, and from them.
namespace brigade::models {

/// How a file of weights names a model's variables.
enum class WeightsNames {
  kBrigade,      ///< as the variables
  kTorchvision,  ///< `torchvision_names`
};

/// The state dict that torchvision's model called `model` has with these weights, sorted by name.
/// Besides the names, which `torchvision_names` maps:
///
/// - `num_batches_tracked`, which PyTorch's batch norm has and Brigade's has not, is 0;
/// - batch norm without gamma or beta gets ones or zeros, which compute the same;
/// - the last 1 x 1 convolution, which is a linear layer there, loses its last two dimensions;
/// - `global_step` is left out.
///
/// Throws kInvalidArgument, naming the first ones, for weights that the model does not have, and as
/// `torchvision_names`. Thread-safety: a pure function.
std::vector<checkpoint::NamedTensor> to_torchvision(
    std::string_view model, std::span<const checkpoint::NamedTensor> weights);

/// The reverse, for these variables of a model: tensors of torchvision's state dict under the
/// variables' names, and in their shapes where these differ in trailing ones; tensors of other
/// names unchanged, but without `num_batches_tracked`.
///
/// Throws kInvalidArgument for a batch norm whose gamma or beta the variables lack, unless it is
/// ones or zeros: the model would compute something else. Otherwise as `to_torchvision`.
std::vector<checkpoint::NamedTensor> from_torchvision(
    std::string_view model, std::span<const checkpoint::NamedTensor> state_dict,
    std::span<const variables::Variable> variables);

/// Writes weights and their record to a safetensors file, atomically. With kTorchvision, Python
/// loads it without Brigade:
///
///     weights = safetensors.torch.load_file("inception.safetensors")
///     torchvision.models.inception_v3(num_classes=3, init_weights=False)
///         .load_state_dict(weights, strict=True)
///
/// The metadata has the record (`kWeightsRecordKey`), the hash of the tensors
/// (`checkpoint::kWeightsHashKey`), and "format": "pt", which some readers expect. Throws as
/// `to_json(record)`, `to_torchvision` and `checkpoint::save_safetensors`; nothing is written then.
/// Thread-safety: as that of `files`.
void export_weights(io::FileSystem& files, const io::Path& path,
                    std::span<const checkpoint::NamedTensor> weights, const WeightsRecord& record,
                    WeightsNames names = WeightsNames::kBrigade);
/// The same of variables, with the values that they have outside of replicas.
void export_weights(io::FileSystem& files, const io::Path& path,
                    std::span<const variables::Variable> variables, const WeightsRecord& record,
                    WeightsNames names = WeightsNames::kBrigade);

/// Options of `import_weights`.
struct ImportOptions {
  /// The model of the registry. Empty: the one that the file's record names, which must be there
  /// for kTorchvision.
  std::string model = {};
  /// The names in the file. Unset: as its metadata says, or else kBrigade; `names_in` guesses.
  std::optional<WeightsNames> names = std::nullopt;
  /// What is restored, and how. Its layout is that of the file.
  checkpoint::RestoreOptions restore = {};
  /// What happens if a safetensors file records a hash that its tensors do not have.
  checkpoint::HashMismatch hash_mismatch = checkpoint::HashMismatch::kRefuse;
};

/// What `import_weights` returns.
struct ImportedWeights {
  /// What was restored, and what was missing or left over.
  checkpoint::RestoreReport report;
  std::optional<WeightsRecord> record;  ///< Of the file, if it has one.
};

/// Gives the variables of a model the weights at `path`, which may be any that
/// `checkpoint::read_weights_file` reads: a file of `export_weights`, torchvision's own `.pth`, a
/// checkpoint of TensorFlow. Nothing is assigned if any value does not match.
///
/// Throws kInvalidArgument if the file's record names another model; otherwise as
/// `read_weights_file`, `find_weights_record`, `from_torchvision` and
/// `checkpoint::restore_variables`.
ImportedWeights import_weights(std::shared_ptr<const io::FileSystem> files, const io::Path& path,
                               std::span<const variables::Variable> variables,
                               const ImportOptions& options = {});

/// The same of weights that were read; `source` names them in messages.
ImportedWeights import_weights(checkpoint::WeightsFile file, std::string_view source,
                               std::span<const variables::Variable> variables,
                               const ImportOptions& options = {});

/// How a file names the variables of the model called `model`: as its metadata says; otherwise
/// kTorchvision if more of its tensors have a name that torchvision gives to a variable of the
/// model than have a name of Brigade's. Thread-safety: a pure function.
WeightsNames names_in(const checkpoint::WeightsFile& file, std::string_view model);

}  // namespace brigade::models
