#include "brigade/io/testing/crashing_file_system.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "brigade/base/random.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::io {
namespace {

constexpr std::size_t kSector = 512;

struct Node;
using NodePtr = std::shared_ptr<Node>;
using Entries = std::map<std::string, NodePtr>;

struct Entry {
  std::string name;
  NodePtr node;  // null: the name is removed
};
/// Names of one folder that change together.
using Change = std::vector<Entry>;

/// A file or folder, independent of its names.
struct Node {
  bool is_directory = false;
  std::string bytes, synced;        // of a file
  std::size_t safe = 0;             // synced bytes at its front that were not truncated since
  Entries entries, synced_entries;  // of a folder
  std::vector<Change> unsynced;     // the changes between the two, in order
};

void make_change(Entries& entries, const Change& change) {
  for (const auto& [name, node] : change) {
    entries.erase(name);
    if (node != nullptr) entries.emplace(name, node);
  }
}

Path normal(const Path& path) {
  const std::string text = (Path("/") / path).lexically_normal().string();
  return text.size() > 1 && text.back() == '/' ? Path(text).parent_path() : Path(text);
}

/// Draws which unsynced changes survive.
class Fate {
 public:
  explicit Fate(const Crash& crash) : crash_(crash), rng_(crash.seed) {}

  Entries entries(const Node& directory) {
    Entries left = directory.synced_entries;
    for (const Change& each : directory.unsynced) {
      if (survives(crash_.names)) make_change(left, each);
    }
    return left;
  }

  std::string bytes(const Node& file) {
    if (crash_.data == Survivors::kNone || file.bytes == file.synced) return file.synced;
    if (crash_.data == Survivors::kAll) return file.bytes;
    enum { kOld, kEmpty, kCut, kSectors, kCutSectors, kNew, kKinds };
    switch (rng_.uniform_below(kKinds)) {
      case kOld:
        return file.synced;
      case kEmpty:
        return file.synced.substr(0, file.safe);
      case kCut:
        return file.bytes.substr(0, any_size(file));
      case kSectors:
        return patchwork(file, file.bytes.size());
      case kCutSectors:
        return patchwork(file, any_size(file));
      default:
        return file.bytes;
    }
  }

 private:
  bool survives(Survivors rule) {
    return rule == Survivors::kAll || (rule == Survivors::kSome && rng_.uniform_below(2) == 0);
  }
  std::size_t any_size(const Node& file) {
    return file.safe + rng_.uniform_below(file.bytes.size() - file.safe + 1);
  }
  std::string patchwork(const Node& file, std::size_t size) {
    std::string result = file.synced;
    result.resize(size, '\0');
    for (std::size_t at = 0; at < size; at += kSector) {
      const std::size_t count = std::min(kSector, size - at);
      if (rng_.uniform_below(2) == 0) result.replace(at, count, file.bytes, at, count);
    }
    return result;
  }

  Crash crash_;
  base::CounterRng rng_;
};

}  // namespace

/// The files as the program sees them, and the part of them that is on the disk. `files` reports
/// errors; successful changes are recorded here afterwards.
class CrashingFileSystem::Disk {
 public:
  template <class Operation>
  auto locked(Operation operation) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return operation();
  }

  MemoryFileSystem files;  // has its own lock, which is enough for reads

  // All below expect to be called inside `locked`.
  NodePtr at(const Path& path) const {
    NodePtr node = root_;
    for (const Path& name : normal(path).relative_path()) {
      const auto found = node->entries.find(name.string());
      if (found == node->entries.end()) return nullptr;
      node = found->second;
    }
    return node;
  }
  void change(const Path& directory, Change change) {
    Node& node = *at(directory);
    make_change(node.entries, change);
    node.unsynced.push_back(std::move(change));
  }
  NodePtr add(const Path& path, bool is_directory) {
    const auto node = std::make_shared<Node>();
    node->is_directory = is_directory;
    change(path.parent_path(), {Entry{path.filename().string(), node}});
    return node;
  }
  void move(const Path& from, const Path& to) {
    if (from == to) return;
    const NodePtr node = at(from);
    if (from.parent_path() == to.parent_path()) {
      return change(from.parent_path(), {Entry{from.filename().string(), nullptr},
                                         Entry{to.filename().string(), node}});
    }
    change(from.parent_path(), {Entry{from.filename().string(), nullptr}});
    change(to.parent_path(), {Entry{to.filename().string(), node}});
  }
  void sync(Node& node) {
    node.synced = node.bytes;
    node.safe = node.bytes.size();
    node.synced_entries = node.entries;
    node.unsynced.clear();
  }
  /// Copies what the crash leaves below `node` into `target`.
  static void leave(const Node& node, const Path& path, Fate& fate, CrashingFileSystem& target) {
    if (node.is_directory) {
      target.create_directories(path);
      for (const auto& [name, child] : fate.entries(node)) leave(*child, path / name, fate, target);
      return target.sync_directory(path);
    }
    const auto file = target.create(path, CreateMode::kExclusive);
    file->write(as_bytes(fate.bytes(node)));
    file->sync();
  }
  const Node& root() const { return *root_; }

 private:
  std::mutex mutex_;  // guards all nodes, and holds files and nodes together
  NodePtr root_ = std::make_shared<Node>(Node{.is_directory = true});
};

class CrashingFileSystem::Writer final : public WritableFile {
 public:
  Writer(std::shared_ptr<Disk> disk, NodePtr node, std::unique_ptr<WritableFile> file)
      : disk_(std::move(disk)), node_(std::move(node)), file_(std::move(file)) {}
  void write(std::span<const std::byte> bytes) override {
    disk_->locked([&] {
      file_->write(bytes);
      node_->bytes.replace(std::min(position_, node_->bytes.size()), bytes.size(),
                           reinterpret_cast<const char*>(bytes.data()), bytes.size());
      position_ += bytes.size();
    });
  }
  void sync() override {
    disk_->locked([&] { disk_->sync(*node_); });
  }
  void close() override { file_->close(); }

 private:
  std::shared_ptr<Disk> disk_;
  NodePtr node_;
  std::unique_ptr<WritableFile> file_;
  std::size_t position_ = 0;
};

CrashingFileSystem::CrashingFileSystem() : disk_(std::make_shared<Disk>()) {}
CrashingFileSystem::~CrashingFileSystem() = default;

std::shared_ptr<CrashingFileSystem> CrashingFileSystem::crash(const Crash& crash) const {
  auto after = std::make_shared<CrashingFileSystem>();
  Fate fate(crash);
  disk_->locked([&] { Disk::leave(disk_->root(), "/", fate, *after); });
  return after;
}

std::string CrashingFileSystem::read(const Path& path) const {
  return disk_->files.read(path);
}

std::unique_ptr<ReadableFile> CrashingFileSystem::open(const Path& path) const {
  return disk_->files.open(path);
}

std::unique_ptr<WritableFile> CrashingFileSystem::create(const Path& path, CreateMode mode) {
  return disk_->locked([&] {
    auto file = disk_->files.create(path, mode);
    NodePtr node = disk_->at(path);
    if (node == nullptr) node = disk_->add(normal(path), false);
    if (mode != CreateMode::kOverwrite) {
      node->bytes.clear();
      node->safe = 0;
    }
    return std::make_unique<Writer>(disk_, std::move(node), std::move(file));
  });
}

void CrashingFileSystem::rename(const Path& from, const Path& to) {
  disk_->locked([&] {
    disk_->files.rename(from, to);
    disk_->move(normal(from), normal(to));
  });
}

bool CrashingFileSystem::remove(const Path& path) {
  return disk_->locked([&] {
    if (!disk_->files.remove(path)) return false;
    const Path normalized = normal(path);
    disk_->change(normalized.parent_path(), {Entry{normalized.filename().string(), nullptr}});
    return true;
  });
}

std::optional<FileInfo> CrashingFileSystem::info(const Path& path) const {
  return disk_->files.info(path);
}

std::vector<std::string> CrashingFileSystem::list(const Path& directory) const {
  return disk_->files.list(directory);
}

void CrashingFileSystem::create_directories(const Path& directory) {
  disk_->locked([&] {
    disk_->files.create_directories(directory);
    Path normalized = "/";
    for (const Path& name : normal(directory).relative_path()) {
      normalized /= name;
      if (disk_->at(normalized) == nullptr) disk_->add(normalized, true);
    }
  });
}

void CrashingFileSystem::sync_directory(const Path& directory) {
  disk_->locked([&] {
    disk_->files.sync_directory(directory);
    disk_->sync(*disk_->at(directory));
  });
}

}  // namespace brigade::io
