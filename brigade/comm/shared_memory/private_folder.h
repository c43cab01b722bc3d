#pragma once

#include <string>

namespace brigade::comm {

/// A temporary folder that only this user may access, for secrets that a library takes as files. It
/// is removed with this object.
///
/// Thread-safety: one thread at a time.
class PrivateFolder {
 public:
  /// Throws kPermissionDenied if the folder cannot be created.
  PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  ~PrivateFolder();

  const std::string& path() const { return path_; }
  /// Writes a file that only this user may read; returns its path.
  std::string write(const std::string& name, const std::string& content) const;

 private:
  std::string path_;
};

}  // namespace brigade::comm
