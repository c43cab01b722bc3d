#pragma once

#include <cstddef>
#include <memory>

#include "brigade/base/error.h"
#include "brigade/io/testing/forwarding_file_system.h"

namespace brigade::io {

/// How long a fault lasts.
enum class FaultLength {
  kOnce,       ///< One operation fails; the next ones work again.
  kEverAfter,  ///< That operation and all later ones fail, as when the machine stopped there.
};

/// A planned failure.
struct Fault {
  /// The number of changing operations that still succeed before it.
  std::size_t after = 0;
  ErrorCode code = ErrorCode::kResourceExhausted;
  FaultLength length = FaultLength::kOnce;
};

/// Forwards everything to another file system, but fails on demand: for tests of every point where
/// a disk can fill up or a machine can stop. Changing operations are counted: create, write, sync,
/// close, rename, remove, create_directories, sync_directory. A write that fails has written the
/// first half of its bytes.
///
/// Thread-safety: as that of the underlying file system; all threads share one count.
class FaultyFileSystem final : public ForwardingFileSystem {
 public:
  explicit FaultyFileSystem(std::shared_ptr<FileSystem> below);

  /// Plans one fault, which replaces a planned one.
  void inject(Fault fault);
  /// Cancels the planned fault: everything works from now on.
  void heal();
  /// The number of changing operations attempted so far, including failed ones.
  std::size_t operations() const;

  std::unique_ptr<WritableFile> create(const Path& path, CreateMode mode) override;
  void rename(const Path& from, const Path& to) override;
  bool remove(const Path& path) override;
  void create_directories(const Path& directory) override;
  void sync_directory(const Path& directory) override;

 private:
  class Plan;
  class Writer;
  std::shared_ptr<Plan> plan_;
};

}  // namespace brigade::io
