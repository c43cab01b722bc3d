#pragma once

#include <string>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// The content of a file written by PyTorch's `torch.save` or libtorch's `torch::save`.
struct TorchFile {
  /// Sorted by name, on the CPU. Nested dicts, lists and modules are flattened with dots: the state
  /// dict's own names for a model, `state.0.exp_avg` for an optimizer. Tensors that shared memory
  /// in Python share it here; strides are kept.
  std::vector<NamedTensor> tensors;
  /// Names of values that are not tensors (numbers, strings, None). They were left out.
  std::vector<std::string> left_out;
};

/// Reads the zip file that `torch.save` writes (PyTorch 1.6 and later), if it holds tensors,
/// numbers and strings, in dicts and lists of any nesting; and the archive that `torch::save`
/// writes in C++: a module's parameters and buffers by their names, an optimizer's state. No code
/// from the file is run: a file that needs code is refused. The dtypes are those of safetensors.
///
/// Throws kInvalidArgument naming the unsupported content, kUnimplemented for the format before
/// 1.6, compressed entries, big-endian data and other dtypes, kDataLoss for a corrupt file, and as
/// `io::FileSystem` does. A malicious file cannot do more than that.
TorchFile read_torch(const io::FileSystem& files, const io::Path& path);

/// Whether the file begins with the signature of a zip file.
bool is_torch_file(const io::FileSystem& files, const io::Path& path);

}  // namespace brigade::checkpoint
