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

/// What `FileSystem::create` does when the file is there already.
enum class CreateMode {
  kTruncate,   ///< Empties it.
  kExclusive,  ///< Throws kAlreadyExists.
};

enum class FileKind {
  kFile,
  kDirectory,
  kLink,   ///< A symbolic link; from `FileSystem::entry` alone.
  kOther,  ///< A device, a pipe and the like.
};

struct FileInfo {
  FileKind kind = FileKind::kFile;
  std::uint64_t size = 0;  ///< In bytes; 0 for what is no file.
};

/// A file being written, from its beginning. What is written may be lost in a crash of the machine
/// until `sync`.
///
/// Thread-safety: one thread at a time.
class WritableFile {
 public:
  /// Closes the file; errors are lost: call `close` to see them.
  virtual ~WritableFile() = default;
  /// Appends all of `bytes`, or throws.
  virtual void write(std::span<const std::byte> bytes) = 0;
  /// Returns once everything written so far is on the disk.
  virtual void sync() = 0;
  /// Ends the writing. Afterwards only destruction is allowed.
  virtual void close() = 0;
};

/// A file being read, from its beginning unless told otherwise, with no more of it in memory than
/// the caller asks for.
///
/// Thread-safety: one thread at a time.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  /// Fills the front of `buffer` with the next bytes and returns how many they are: all that fit,
  /// fewer only at the end of the file. A file that has grown since is read on by the next call.
  virtual std::size_t read(std::span<std::byte> buffer) = 0;
  /// The next read begins `offset` bytes from the beginning of the file; behind the end there is
  /// nothing to read.
  virtual void seek(std::uint64_t offset) = 0;
};

/// Says by a file's name whether the caller may have made it.
using IsOwnName = std::function<bool(std::string_view name)>;

/// What `FileSystem::remove_files` has met.
struct FolderSweep {
  bool is_folder = true;  ///< False: no folder is there, or a link to one; nothing was done.
  std::vector<std::string> left;  ///< Names that are in it still.
};

/// A folder that somebody means to find again. See `FileSystem::hold`.
///
/// Thread-safety: any thread.
class HeldFolder {
 public:
  virtual ~HeldFolder() = default;
  /// Whether its path still leads to it: false once it was removed, renamed, replaced, or its file
  /// system unmounted. Throws as `FileSystem::info` if that cannot be told.
  virtual bool is_unchanged() const = 0;
};

/// Files and folders behind one object, so that tests can run in memory, drop what was not synced,
/// and fail on demand. Everything in Brigade that reads or writes files takes one. For whole files
/// prefer `atomic_write`.
///
/// All functions throw `Error` with the path, the system's reason and what to do: kNotFound,
/// kAlreadyExists, kPermissionDenied, kResourceExhausted (disk, descriptors, memory), kDataLoss
/// (the device failed), kInvalidArgument (a folder where a file should be, and the like),
/// kUnavailable for the rest.
///
/// Only regular files are read, so no call waits for another program: a named pipe, a socket or a
/// device in a file's place is kInvalidArgument.
///
/// Thread-safety: all functions from any thread.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// The whole of a file. Throws kResourceExhausted if there is no memory for it: what comes from
  /// strangers and has no reason to be large is read by `read_at_most`.
  virtual std::string read(const Path& path) const = 0;
  /// Opens a file for reading in pieces: for files that need not fit into memory.
  virtual std::unique_ptr<ReadableFile> open(const Path& path) const = 0;
  /// Opens a new file for writing, readable as the process's umask says.
  virtual std::unique_ptr<WritableFile> create(const Path& path, CreateMode mode) = 0;
  /// Gives a file or folder another name, in one step: a file at `to` is replaced, and whoever
  /// looks sees the old or the new.
  virtual void rename(const Path& from, const Path& to) = 0;
  /// Removes a file or an empty folder; of a symbolic link, the link. Returns whether there was
  /// one.
  virtual bool remove(const Path& path) = 0;
  /// What is at `path` (symbolic links followed), or nothing if there is nothing.
  virtual std::optional<FileInfo> info(const Path& path) const = 0;
  /// The same, where a symbolic link at the end of `path` is kLink, wherever it leads. A file
  /// system with links, or on top of another one, overrides it.
  virtual std::optional<FileInfo> entry(const Path& path) const { return info(path); }
  /// The names (without the path) in a folder, in byte order.
  virtual std::vector<std::string> list(const Path& directory) const = 0;
  /// Makes a folder and those above it, as far as they are missing.
  virtual void create_directories(const Path& directory) = 0;
  /// Makes one folder. Throws kAlreadyExists if anything is there, be it a link, kNotFound if the
  /// folder above is missing.
  virtual void create_directory(const Path& directory);
  /// Removes the regular files in `directory` whose names `is_own` accepts, and says what is left.
  /// No symbolic link is followed: neither `directory` itself (the ones above it are; so is
  /// `link/.`) nor one that is put there meanwhile. Folders, links, and what else is no regular
  /// file stay, whatever their names. For whole folders prefer `remove_own_folder`.
  virtual FolderSweep remove_files(const Path& directory, const IsOwnName& is_own);
  /// Takes hold of a folder, to be asked later whether its path still leads to it. Must not outlive
  /// this. Throws as `info`, and kNotFound if there is no folder.
  virtual std::unique_ptr<HeldFolder> hold(const Path& directory) const;
  /// Returns once the names in `directory` (files made, renamed, removed) are on the disk.
  virtual void sync_directory(const Path& directory) = 0;

  /// Whether there is anything at `path`.
  bool exists(const Path& path) const { return info(path).has_value(); }
};

/// The bytes of `text`, to be written.
inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// The machine's files.
std::shared_ptr<FileSystem> posix_file_system();

}  // namespace brigade::io
