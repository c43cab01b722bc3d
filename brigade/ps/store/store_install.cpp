#include "brigade/ps/store/store_install.h"

#include "brigade/checkpoint/saver.h"

namespace brigade::ps {
namespace {

void remove_tree(io::FileSystem& files, const io::Path& path) {
  const auto entry = files.entry(path);
  if (!entry) return;
  if (entry->kind == io::FileKind::kDirectory)
    for (const std::string& name : files.list(path)) remove_tree(files, path / name);
  files.remove(path);
}

}  // namespace

void clear_store(io::FileSystem& files, const io::Path& folder) {
  // A log without its snapshot would lack updates.
  remove_tree(files, folder / "log");
  remove_tree(files, folder / "snapshots");
  files.sync_directory(folder);
}

void install_store(const std::shared_ptr<io::FileSystem>& files, const io::Path& folder,
                   const StoreMoment& moment) {
  if (moment.covered == 0) return;  // nothing was ever changed
  checkpoint::Saver saver(files, {.directory = folder / "snapshots",
                                  .keep_last = 2,
                                  .writing = checkpoint::Writing::kForeground});
  saver.save(moment.covered, moment.contents);
}

}  // namespace brigade::ps
