#pragma once

#include <string>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// What a file of PyTorch's `torch.save`, or of libtorch's `torch::save`, holds.
struct TorchFile {
  /// In name order, on the CPU. Nested dicts, lists and modules are flattened with dots: the state
  /// dict's own names for a model, `state.0.exp_avg` for an optimizer. Tensors that shared memory
  /// in Python share it here; strides are kept.
  std::vector<NamedTensor> tensors;
  /// Names of what was no tensor (numbers, strings, None), and was left out.
  std::vector<std::string> left_out;
};

/// Reads the zip file that `torch.save` writes (PyTorch 1.6 and later) as far as it holds tensors,
/// in dicts and lists of any nesting, numbers and strings; and the archive that `torch::save`
/// writes in C++: a module's parameters and buffers by their names, an optimizer's state. No code
/// of the file is run: what would need any is refused. dtypes are those of safetensors.
///
/// Throws kInvalidArgument naming what the file asks for beyond that, kUnimplemented for the format
/// before 1.6, compressed entries, big-endian machines and other dtypes, kDataLoss for what is
/// broken, and as `io::FileSystem` does. A hostile file cannot do more than that.
TorchFile read_torch(const io::FileSystem& files, const io::Path& path);

/// Whether the file begins as a zip file does.
bool is_torch_file(const io::FileSystem& files, const io::Path& path);

}  // namespace brigade::checkpoint
