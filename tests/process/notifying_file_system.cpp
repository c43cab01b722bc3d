#include "tests/process/notifying_file_system.h"

#include <string>
#include <utility>

namespace brigade::process {
namespace {

constexpr std::string_view kFolderPrefix = "ckpt-";

bool ends_with(const io::Path& path, std::string_view end) {
  return path.filename().string().ends_with(end);
}

/// A read inside of a checkpoint begins the restore, if the session has come that far.
void tell_read(ProgressPage& page, const io::Path& path) {
  const bool is_checkpoint = path.parent_path().filename().string().starts_with(kFolderPrefix);
  if (is_checkpoint && page.trainer() == TrainerPhase::kLooking) page.set(TrainerPhase::kRestore);
}

}  // namespace

NotifyingFileSystem::NotifyingFileSystem(std::shared_ptr<io::FileSystem> below, ProgressPage& page)
    : ForwardingFileSystem(std::move(below)), page_(page) {}

std::string NotifyingFileSystem::read(const io::Path& path) const {
  tell_read(page_, path);
  return ForwardingFileSystem::read(path);
}

std::unique_ptr<io::ReadableFile> NotifyingFileSystem::open(const io::Path& path) const {
  tell_read(page_, path);
  return ForwardingFileSystem::open(path);
}

void NotifyingFileSystem::rename(const io::Path& from, const io::Path& to) {
  const bool is_checkpoint = ends_with(from, ".saving");
  if (is_checkpoint) page_.set(WriterPhase::kPublishing);
  if (ends_with(to, ".removing")) page_.set(WriterPhase::kRemoving);
  ForwardingFileSystem::rename(from, to);
  if (is_checkpoint) {
    page_.set_published(std::stoll(to.filename().string().substr(kFolderPrefix.size())));
  }
  if (to.filename() == "latest") is_latest_set_ = true;
}

bool NotifyingFileSystem::remove(const io::Path& path) {
  const bool was_there = ForwardingFileSystem::remove(path);
  if (ends_with(path, ".removing")) page_.set(WriterPhase::kIdle);
  return was_there;
}

void NotifyingFileSystem::create_directories(const io::Path& directory) {
  if (ends_with(directory, ".saving")) page_.set(WriterPhase::kWriting);
  ForwardingFileSystem::create_directories(directory);
}

void NotifyingFileSystem::sync_directory(const io::Path& directory) {
  ForwardingFileSystem::sync_directory(directory);
  const bool is_published = std::exchange(is_latest_set_, false);
  if (is_published && page_.writer() == WriterPhase::kPublishing) page_.set(WriterPhase::kIdle);
}

}  // namespace brigade::process
