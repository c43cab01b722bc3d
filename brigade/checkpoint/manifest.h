#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/device/dtypes.h"

namespace brigade::checkpoint {

/// The three sections of a checkpoint, each with its own names.
enum class Section {
  kVariables,  ///< the values of variables, by their names
  kTensors,    ///< other tensors that the caller saves: optimizer slots, moving averages
  kState,      ///< arrays and bytes of the state tree, under the names that `io::to_json` gives
};
inline constexpr std::array kSections{Section::kVariables, Section::kTensors, Section::kState};

/// "variables", "tensors" or "state": also the prefix of the section's file names.
std::string_view to_string(Section section);

/// A file of a checkpoint, with its size and checksum.
struct ManifestFile {
  std::string name;  ///< Within the checkpoint's folder.
  Seal seal;
  friend bool operator==(const ManifestFile&, const ManifestFile&) = default;
};

/// A tensor of a checkpoint: the file that contains it, and its form.
struct ManifestTensor {
  std::size_t file = 0;  ///< Index into Manifest::files.
  device::FileDtype dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes() const;
};

/// Decides whether `SaverOptions::keep_every` keeps a checkpoint forever. Saved, because the
/// checkpoints that it is counted from may have been removed.
struct KeptMark {
  bool is_kept = false;        ///< This checkpoint is kept forever.
  std::int64_t last_step = 0;  ///< The newest checkpoint kept so far; 0 before the first.
  std::chrono::milliseconds
      last_time{};  ///< Its time; before the first one, the time when saving began.
  friend bool operator==(const KeptMark&, const KeptMark&) = default;
};

/// The file that commits a checkpoint. It lists the checkpoint's files and holds everything that is
/// not a tensor. A folder is a checkpoint if and only if its manifest is complete. docs/formats.md
/// describes the bytes.
struct Manifest {
  std::int64_t number =
      1;  ///< Counts the saves of a directory: the newest checkpoint has the highest number.
  std::int64_t step = 0;
  std::chrono::milliseconds time{};  ///< Since 1970, UTC.
  std::vector<ManifestFile> files;
  std::array<std::map<std::string, ManifestTensor>, kSections.size()> tensors;  ///< [Section]
  std::map<std::string, double> metrics;
  std::map<std::string, std::string> metadata;
  KeptMark kept;
  std::string state = "null";  ///< JSON, as `io::to_json` writes it.

  const std::map<std::string, ManifestTensor>& section(Section which) const {
    return tensors[static_cast<std::size_t>(which)];
  }
  /// Of all files.
  std::uint64_t bytes() const;
};

/// The version that `write_manifest` writes. `parse_manifest` reads it and all older ones.
inline constexpr int kManifestVersion = 1;

/// The name of the manifest in a checkpoint folder.
inline constexpr std::string_view kManifestName = "manifest.json";

/// The maximum size of a manifest. A larger file is not read.
inline constexpr std::uint64_t kMostManifestBytes = 100'000'000;

/// The text of the file. Throws kInvalidArgument for text that is not UTF-8, and for more than
/// `kMostManifestBytes` of it.
std::string write_manifest(const Manifest& manifest);

/// Parses the text of a manifest and validates it: its checksum, every key and type, that file
/// names stay in the folder, and that sizes do not overflow and fit in their files. Otherwise
/// throws kDataLoss, which names `file` and what is wrong, kUnimplemented for a version that is
/// newer than this build. Thread-safety: a pure function.
Manifest parse_manifest(std::string_view text, std::string_view file);

}  // namespace brigade::checkpoint
