#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "brigade/data/core/pipeline_description.h"
#include "brigade/io/compression.h"
#include "brigade/io/file_system.h"

namespace brigade::data::internal {

/// The contents of `index.json` in a folder of elements (docs/formats.md, "Files of elements").
struct ElementIndex {
  std::string type;              ///< `Codec<T>::name()`
  PipelineDescription pipeline;  ///< of the dataset that was written
  std::uint64_t seed = 0;
  std::string shard;  ///< of the dataset: "the whole"
  std::uint64_t count = 0;
  std::uint64_t files = 1;  ///< element i is in file i % files
  io::Compression compression = io::Compression::kNone;
};

/// Elements in file number `file`.
std::uint64_t elements_in_file(const ElementIndex& index, std::uint64_t file);

io::Path index_path(const io::Path& folder);
io::Path records_path(const io::Path& folder, std::uint64_t file, std::uint64_t files);
io::Path offsets_path(const io::Path& folder, std::uint64_t file, std::uint64_t files);

std::string index_text(const ElementIndex& index);
/// Throws kDataLoss, with the path in the message, if the text is not a valid index.
ElementIndex parse_index(std::string_view text, const io::Path& path);

/// The index of a folder, or `std::nullopt` if the folder has none.
std::optional<ElementIndex> find_index(const io::FileSystem& files, const io::Path& folder);

/// Throws kFailedPrecondition, saying what differs and what to delete, unless the folder holds
/// elements of the expected type and, if `expected` has one, pipeline description.
void check_index(const ElementIndex& found, const ElementIndex& expected, const io::Path& folder);

}  // namespace brigade::data::internal
