#include "brigade/io/testing/memory_file_system.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "brigade/base/error.h"

namespace brigade::io {
namespace {

std::string normal(const Path& path) {
  std::string text = (Path("/") / path).lexically_normal().string();
  if (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

std::string parent_of(const std::string& path) {
  return Path(path).parent_path().string();
}
std::string name_of(const std::string& path) {
  return Path(path).filename().string();
}

bool is_below(const std::string& path, const std::string& directory) {
  if (directory == "/") return path != "/";
  return path.size() > directory.size() && path.starts_with(directory) &&
         path[directory.size()] == '/';
}

[[noreturn]] void fail(ErrorCode code, const std::string& path, std::string_view reason) {
  throw Error(code, path, " (in memory): ", reason);
}

}  // namespace

struct MemoryFileSystem::Content {
  std::string bytes;
  std::string synced;
};

class MemoryFileSystem::Reader final : public ReadableFile {
 public:
  Reader(std::mutex& mutex, std::shared_ptr<const Content> content)
      : mutex_(mutex), content_(std::move(content)) {}
  std::size_t read(std::span<std::byte> buffer) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::string& bytes = content_->bytes;
    if (position_ >= bytes.size()) return 0;
    const std::size_t count = std::min(buffer.size(), bytes.size() - position_);
    std::memcpy(buffer.data(), bytes.data() + position_, count);
    position_ += count;
    return count;
  }
  void seek(std::uint64_t offset) override { position_ = offset; }

 private:
  std::mutex& mutex_;
  std::shared_ptr<const Content> content_;
  std::size_t position_ = 0;
};

class MemoryFileSystem::Writer final : public WritableFile {
 public:
  Writer(std::mutex& mutex, std::shared_ptr<Content> content)
      : mutex_(mutex), content_(std::move(content)) {}
  void write(std::span<const std::byte> bytes) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::string& all = content_->bytes;
    all.replace(std::min(position_, all.size()), bytes.size(),
                reinterpret_cast<const char*>(bytes.data()), bytes.size());
    position_ += bytes.size();
  }
  void sync() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    content_->synced = content_->bytes;
  }
  void close() override {}

 private:
  std::mutex& mutex_;
  std::shared_ptr<Content> content_;
  std::size_t position_ = 0;
};

MemoryFileSystem::MemoryFileSystem() : directories_{"/"} {}

const std::shared_ptr<MemoryFileSystem::Content>& MemoryFileSystem::file_at(
    const std::string& path) const {
  if (is_directory(path)) fail(ErrorCode::kInvalidArgument, path, "is a folder, not a file");
  const auto found = files_.find(path);
  if (found == files_.end()) fail(ErrorCode::kNotFound, path, "no such file");
  return found->second;
}

std::string MemoryFileSystem::read(const Path& path) const {
  const std::string normalized = normal(path);
  const std::lock_guard<std::mutex> lock(mutex_);
  return file_at(normalized)->bytes;
}

std::unique_ptr<ReadableFile> MemoryFileSystem::open(const Path& path) const {
  const std::string normalized = normal(path);
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::make_unique<Reader>(mutex_, file_at(normalized));
}

std::unique_ptr<WritableFile> MemoryFileSystem::create(const Path& path, CreateMode mode) {
  const std::string normalized = normal(path);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_directory(normalized))
    fail(ErrorCode::kInvalidArgument, normalized, "is a folder, not a file");
  if (!is_directory(parent_of(normalized)))
    fail(ErrorCode::kNotFound, normalized, "its folder does not exist");
  std::shared_ptr<Content>& content = files_[normalized];
  if (content != nullptr && mode == CreateMode::kExclusive) {
    fail(ErrorCode::kAlreadyExists, normalized, "exists already");
  }
  if (content == nullptr) content = std::make_shared<Content>();
  if (mode != CreateMode::kOverwrite) content->bytes.clear();
  return std::make_unique<Writer>(mutex_, content);
}

void MemoryFileSystem::rename(const Path& from, const Path& to) {
  const std::string source = normal(from);
  const std::string target = normal(to);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!is_directory(parent_of(target)))
    fail(ErrorCode::kNotFound, target, "its folder does not exist");
  if (is_directory(source)) return rename_directory(source, target);
  const auto found = files_.find(source);
  if (found == files_.end()) fail(ErrorCode::kNotFound, source, "no such file");
  if (is_directory(target)) fail(ErrorCode::kInvalidArgument, target, "is a folder, not a file");
  if (source == target) return;
  files_[target] = std::move(found->second);
  files_.erase(found);
}

void MemoryFileSystem::rename_directory(const std::string& from, const std::string& to) {
  if (from == to) return;
  if (is_below(to, from))
    fail(ErrorCode::kInvalidArgument, to, "is inside the folder to be renamed");
  if (files_.count(to) > 0) fail(ErrorCode::kInvalidArgument, to, "is a file, not a folder");
  if (is_directory(to) && !is_empty_directory(to))
    fail(ErrorCode::kAlreadyExists, to, "is a folder that is not empty");
  const auto moved = [&](const std::string& path) { return to + path.substr(from.size()); };
  std::set<std::string> directories;
  for (const std::string& path : directories_) {
    directories.insert(path == from || is_below(path, from) ? moved(path) : path);
  }
  directories_ = std::move(directories);
  for (Files* files : {&files_, &synced_files_}) {
    Files renamed;
    for (auto& [path, content] : *files) {
      renamed[is_below(path, from) ? moved(path) : path] = std::move(content);
    }
    *files = std::move(renamed);
  }
}

bool MemoryFileSystem::is_empty_directory(const std::string& path) const {
  for (const auto& [file, content] : files_) {
    if (is_below(file, path)) return false;
  }
  for (const std::string& directory : directories_) {
    if (is_below(directory, path)) return false;
  }
  return true;
}

bool MemoryFileSystem::remove(const Path& path) {
  const std::string normalized = normal(path);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!is_directory(normalized)) return files_.erase(normalized) > 0;
  if (normalized == "/") fail(ErrorCode::kPermissionDenied, normalized, "is the root");
  if (!is_empty_directory(normalized))
    fail(ErrorCode::kAlreadyExists, normalized, "is a folder that is not empty");
  directories_.erase(normalized);
  return true;
}

std::optional<FileInfo> MemoryFileSystem::info(const Path& path) const {
  const std::string normalized = normal(path);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_directory(normalized)) return FileInfo{FileKind::kDirectory, 0};
  const auto found = files_.find(normalized);
  if (found == files_.end()) return std::nullopt;
  return FileInfo{FileKind::kFile, found->second->bytes.size()};
}

std::vector<std::string> MemoryFileSystem::list(const Path& directory) const {
  const std::string normalized = normal(directory);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!is_directory(normalized)) fail(ErrorCode::kNotFound, normalized, "no such folder");
  std::set<std::string> names;
  for (const auto& [path, content] : files_) {
    if (parent_of(path) == normalized) names.insert(name_of(path));
  }
  for (const std::string& path : directories_) {
    if (path != "/" && parent_of(path) == normalized) names.insert(name_of(path));
  }
  return {names.begin(), names.end()};
}

void MemoryFileSystem::create_directories(const Path& directory) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::string normalized = normal(directory); !is_directory(normalized);
       normalized = parent_of(normalized)) {
    if (files_.count(normalized) > 0)
      fail(ErrorCode::kInvalidArgument, normalized, "is a file, not a folder");
    directories_.insert(normalized);
  }
}

void MemoryFileSystem::sync_directory(const Path& directory) {
  const std::string normalized = normal(directory);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!is_directory(normalized)) fail(ErrorCode::kNotFound, normalized, "no such folder");
  std::erase_if(synced_files_,
                [&](const auto& entry) { return parent_of(entry.first) == normalized; });
  for (const auto& entry : files_) {
    if (parent_of(entry.first) == normalized) synced_files_.insert(entry);
  }
}

void MemoryFileSystem::drop_unsynced() {
  const std::lock_guard<std::mutex> lock(mutex_);
  files_ = synced_files_;
  for (auto& [path, content] : files_) content->bytes = content->synced;
}

}  // namespace brigade::io
