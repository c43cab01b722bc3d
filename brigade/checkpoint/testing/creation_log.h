#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "brigade/io/testing/forwarding_file_system.h"

namespace brigade::checkpoint::testing {

/// One process's view of a shared file system; logs which files this process creates.
class CreationLog final : public io::ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;

  /// Names of the tensor files created, in order.
  std::vector<std::string> tensor_files() const {
    const std::lock_guard lock(mutex_);
    return created_;
  }

  std::unique_ptr<io::WritableFile> create(const io::Path& path, io::CreateMode mode) override {
    if (path.extension() == ".safetensors") {
      const std::lock_guard lock(mutex_);
      created_.push_back(path.filename().string());
    }
    return ForwardingFileSystem::create(path, mode);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> created_;
};

}  // namespace brigade::checkpoint::testing
