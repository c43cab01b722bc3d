#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/checkpoint/weights_hash.h"
#include "brigade/checkpoint/weights_layout.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// The formats of files of weights.
enum class WeightsFormat {
  kSafetensors,
  kTorch,       ///< `torch.save` and `torch::save`: `read_torch`
  kTensorFlow,  ///< a checkpoint that TensorFlow saved: `TfBundle`
};

/// "safetensors", "torch", "tensorflow".
std::string_view to_string(WeightsFormat format);

/// The weights in a file of any format, with the names and the layout that they have there.
struct WeightsFile {
  WeightsFormat format = WeightsFormat::kSafetensors;
  std::vector<NamedTensor> tensors;  ///< Sorted by name, on the CPU.
  /// Names of what is no tensor, or has a dtype that is not read (strings). They were left out.
  std::vector<std::string> left_out = {};
  std::map<std::string, std::string> metadata = {};  ///< Of safetensors.
  std::uint64_t bytes = 0;                           ///< Of its files.
  /// For `RestoreOptions::layout`.
  WeightsLayout layout() const {
    return format == WeightsFormat::kTensorFlow ? WeightsLayout::kTensorFlow
                                                : WeightsLayout::kTorch;
  }
};

/// Whether `path` is what `read_weights_file` reads: a file, or the prefix of a TensorFlow
/// checkpoint. A folder is not. Throws as `tf_bundle_prefix`.
bool is_weights_file(const io::FileSystem& files, const io::Path& path);

/// Reads the weights at `path`, whose format is recognized: a safetensors file (`read_weights`,
/// with `mismatch`), a file of PyTorch (`read_torch`), or a TensorFlow checkpoint, given by its
/// prefix or its index (`TfBundle`). Throws kNotFound if there is nothing, and as these do.
/// Thread-safety: as that of `files`.
WeightsFile read_weights_file(std::shared_ptr<const io::FileSystem> files, const io::Path& path,
                              HashMismatch mismatch = HashMismatch::kRefuse);

}  // namespace brigade::checkpoint
