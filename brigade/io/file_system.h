#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace brigade::io {

using Path = std::filesystem::path;

/// What `FileSystem::create` does if the file exists.
enum class CreateMode {
  kTruncate,   ///< Empties it.
  kExclusive,  ///< Throws kAlreadyExists.
  kOverwrite,  ///< Keeps its bytes: what is written replaces them, from the beginning.
};

/// What a path names.
enum class FileKind {
  kFile,
  kDirectory,
  kLink,   ///< A symbolic link; from `FileSystem::entry` alone.
  kOther,  ///< A device, a pipe and the like.
};

/// What `FileSystem` knows about a path.
struct FileInfo {
  FileKind kind = FileKind::kFile;
  std::uint64_t size = 0;  ///< In bytes; 0 unless it is a file.
};

/// A file being written, from its beginning. Until `sync`, a crash of the machine may lose what is
/// written.
///
/// Thread-safety: one thread at a time.
class WritableFile {
 public:
  /// Closes the file. Errors are ignored: call `close` to get them.
  virtual ~WritableFile() = default;
  /// Appends all of `bytes`, or throws.
  virtual void write(std::span<const std::byte> bytes) = 0;
  /// Returns once everything written so far is on the disk.
  virtual void sync() = 0;
  /// Closes the file. Afterwards only destruction is allowed.
  virtual void close() = 0;
};

/// A file being read, from its beginning unless `seek` is called. Only the requested bytes are held
/// in memory.
///
/// Thread-safety: one thread at a time.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  /// Fills the front of `buffer` with the next bytes and returns how many they are: all that fit,
  /// fewer only at the end of the file. If the file has grown since, the next call reads the new
  /// bytes.
  virtual std::size_t read(std::span<std::byte> buffer) = 0;
  /// The next read begins `offset` bytes from the beginning of the file; there is nothing to read
  /// past the end.
  virtual void seek(std::uint64_t offset) = 0;
};

/// Whether a file of this name may have been made by the caller.
using IsOwnName = std::function<bool(std::string_view name)>;

/// The result of `FileSystem::remove_files`.
struct FolderSweep {
  bool is_folder = true;  ///< False: the path is not a folder, or a link to one; nothing was done.
  std::vector<std::string> left;  ///< The names that are left in it.
};

/// A reference to a folder, which detects whether it is replaced. See `FileSystem::hold`.
///
/// Thread-safety: any thread.
class HeldFolder {
 public:
  virtual ~HeldFolder() = default;
  /// Whether its path still refers to the same folder: false once the folder was removed, renamed,
  /// replaced, or its file system unmounted. Throws as `FileSystem::info` if that cannot be
  /// determined.
  virtual bool is_unchanged() const = 0;
};

/// Access to files and folders. An interface, so that tests can run in memory, drop unsynced data,
/// and inject failures. Everything in Brigade that reads or writes files takes one. To write
/// complete files, prefer `atomic_write`.
///
/// All functions throw `Error` with the path, the system's reason and a remedy: kNotFound,
/// kAlreadyExists, kPermissionDenied, kResourceExhausted (disk, descriptors, memory), kDataLoss
/// (the device failed), kInvalidArgument (such as a folder in place of a file), kUnavailable for
/// the rest.
///
/// Only regular files are read, so no call waits for another program: a named pipe, a socket or a
/// device is kInvalidArgument.
///
/// Thread-safety: all functions from any thread.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// The complete content of a file. Throws kResourceExhausted if it does not fit into memory: to
  /// read small files from untrusted sources, use `read_at_most`.
  virtual std::string read(const Path& path) const = 0;
  /// Opens a file for reading in pieces: for files that may not fit into memory.
  virtual std::unique_ptr<ReadableFile> open(const Path& path) const = 0;
  /// Creates a file for writing, with permissions from the process's umask.
  virtual std::unique_ptr<WritableFile> create(const Path& path, CreateMode mode) = 0;
  /// Renames a file or folder atomically: a file at `to` is replaced, and readers see the old file
  /// or the new one.
  virtual void rename(const Path& from, const Path& to) = 0;
  /// Removes a file or an empty folder; of a symbolic link, the link. Returns whether there was
  /// one.
  virtual bool remove(const Path& path) = 0;
  /// Describes the entry at `path` (symbolic links followed), or nothing if it does not exist.
  virtual std::optional<FileInfo> info(const Path& path) const = 0;
  /// The same, but a symbolic link at the end of `path` is not followed: it is kLink. File systems
  /// with links, and wrappers of other file systems, override it.
  virtual std::optional<FileInfo> entry(const Path& path) const { return info(path); }
  /// The names (without the path) in a folder, sorted by bytes.
  virtual std::vector<std::string> list(const Path& directory) const = 0;
  /// Creates a folder and its missing parent folders.
  virtual void create_directories(const Path& directory) = 0;
  /// Creates one folder. Throws kAlreadyExists if the path exists, even as a link, kNotFound if the
  /// parent folder is missing.
  virtual void create_directory(const Path& directory);
  /// Removes the regular files in `directory` whose names `is_own` accepts, and reports what is
  /// left. Symbolic links are not followed, neither at `directory` itself nor when one is created
  /// meanwhile; links in parent folders, and `link/.`, are. Folders, links, and other non-regular
  /// files stay, whatever their names. To remove a folder, prefer `remove_own_folder`.
  virtual FolderSweep remove_files(const Path& directory, const IsOwnName& is_own);
  /// Opens a folder, to check later whether its path still refers to it. The result must not
  /// outlive this file system. Throws as `info`, and kNotFound if the folder does not exist.
  virtual std::unique_ptr<HeldFolder> hold(const Path& directory) const;
  /// Returns once the names in `directory` (files created, renamed, removed) are on the disk.
  virtual void sync_directory(const Path& directory) = 0;

  /// Whether `path` exists.
  bool exists(const Path& path) const { return info(path).has_value(); }
};

/// The bytes of `text`, for writing.
inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// The file system of the operating system.
std::shared_ptr<FileSystem> posix_file_system();

/// A limit for descriptions of a run, a cluster or a data set.
inline constexpr std::uint64_t kMostBytesOfText = std::uint64_t{16} << 20;

/// The complete content of a small file, such as a configuration. Throws kInvalidArgument, with
/// both sizes, if it has more than `most` bytes: then the file is not read, and of a file that
/// grows meanwhile no more than that is read. Otherwise as `FileSystem::read`.
///
/// Thread-safety: as that of `files`.
std::string read_at_most(const FileSystem& files, const Path& path, std::uint64_t most);

}  // namespace brigade::io
