#pragma once

#include <string>

namespace brigade::comm {

/// A folder under the system's temporary one that only this user may enter, for secrets that a
/// library takes as files. It goes with this object.
///
/// Thread-safety: one thread at a time.
class PrivateFolder {
 public:
  /// Throws kPermissionDenied if none can be made.
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
