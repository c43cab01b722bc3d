#pragma once

#include <memory>

#include "brigade/io/testing/forwarding_file_system.h"
#include "tests/process/progress_page.h"

namespace brigade::process {

/// Forwards all calls to another file system, and reports the progress of a save or a restore to
/// the page, by the paths that it sees.
///
/// Thread-safety: as that of the file system below.
class NotifyingFileSystem final : public io::ForwardingFileSystem {
 public:
  /// `page` must outlive it.
  NotifyingFileSystem(std::shared_ptr<io::FileSystem> below, ProgressPage& page);

  std::string read(const io::Path& path) const override;
  std::unique_ptr<io::ReadableFile> open(const io::Path& path) const override;
  void rename(const io::Path& from, const io::Path& to) override;
  bool remove(const io::Path& path) override;
  void create_directories(const io::Path& directory) override;
  void sync_directory(const io::Path& directory) override;

 private:
  ProgressPage& page_;
  bool is_latest_set_ = false;  // used only by the writing thread
};

}  // namespace brigade::process
