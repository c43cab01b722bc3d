#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// Writes a safetensors file of tensors that come row by row and may not fit into memory, such as
/// the features of a dataset; `save_safetensors` is for tensors that do. `input::from_safetensors`
/// reads the rows on demand.
///
/// The number of rows, which is in the first bytes of the format, is known at the end. So the rows
/// are kept in a hidden file per tensor next to the target (`.<name>.<process>.<n>.rows`), which
/// `finish` copies into one file: the disk holds them twice for that time. The files are removed
/// with this object; only a crash can leave them.
///
/// Thread-safety: one thread. One writer per target.
class RowWriter {
 public:
  /// The folder must exist. Throws kInvalidArgument if `path` names no file.
  RowWriter(std::shared_ptr<io::FileSystem> files, io::Path path);
  ~RowWriter();
  RowWriter(const RowWriter&) = delete;
  RowWriter& operator=(const RowWriter&) = delete;

  /// Appends `rows` [n, ...], on any device, to the tensor called `name`. Throws kInvalidArgument,
  /// naming it, for a scalar, for a dtype or rows of a shape other than before, and as
  /// `save_safetensors`; and as `files`.
  void append(const std::string& name, const at::Tensor& rows);

  /// A tensor of the file: its name, and what its rows are.
  struct Written {
    std::string name;
    at::ScalarType dtype = at::kFloat;
    std::vector<std::int64_t> shape;  ///< [rows, ...]
  };
  /// What was appended so far, in the order of the first call.
  std::vector<Written> written() const;

  /// Writes the file, atomically (`io::atomic_write`), replacing an existing one. Call it once, at
  /// the end; without it nothing is at the target. Throws as `save_safetensors`.
  void finish(const std::map<std::string, std::string>& metadata = {});

 private:
  struct Rows;
  Rows& rows_of(const std::string& name, const at::Tensor& first);

  std::shared_ptr<io::FileSystem> files_;
  io::Path path_;
  std::vector<std::unique_ptr<Rows>> all_;
};

}  // namespace brigade::checkpoint
