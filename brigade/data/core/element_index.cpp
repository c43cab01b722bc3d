#include "brigade/data/core/element_index.h"

#include <algorithm>
#include <array>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/io/file_system.h"
#include "brigade/io/state_json.h"

namespace brigade::data::internal {
namespace {

using base::str_cat;

constexpr std::uint64_t kVersion = 1;
constexpr std::uint64_t kMaxFiles = 10'000;

std::string padded(std::uint64_t number) {
  std::string digits = str_cat(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

io::Path file_path(const io::Path& folder, std::uint64_t file, std::uint64_t files,
                   std::string_view ending) {
  return folder / str_cat("elements-", padded(file), "-of-", padded(files), ending);
}

io::Compression compression_named(std::string_view name) {
  for (const auto compression : {io::Compression::kNone, io::Compression::kGzip}) {
    if (name == to_string(compression)) return compression;
  }
  throw Error(ErrorCode::kInvalidArgument, str_cat("unknown compression ", name));
}

std::uint64_t checked(std::uint64_t value, std::uint64_t least, std::uint64_t most,
                      std::string_view what) {
  check_argument(value >= least && value <= most, str_cat(what, " is ", value));
  return value;
}

}  // namespace

std::uint64_t elements_in_file(const ElementIndex& index, std::uint64_t file) {
  return index.count / index.files + (file < index.count % index.files ? 1 : 0);
}

io::Path index_path(const io::Path& folder) {
  return folder / "index.json";
}
io::Path records_path(const io::Path& folder, std::uint64_t file, std::uint64_t files) {
  return file_path(folder, file, files, ".records");
}
io::Path offsets_path(const io::Path& folder, std::uint64_t file, std::uint64_t files) {
  return file_path(folder, file, files, ".offsets");
}

std::string index_text(const ElementIndex& index) {
  io::StateTree tree;
  tree["brigade_elements"] = kVersion;
  tree["type"] = index.type;
  tree["recipe"] = save_pipeline_description(index.pipeline);
  tree["seed"] = index.seed;
  tree["shard"] = index.shard;
  tree["count"] = index.count;
  tree["files"] = index.files;
  tree["compression"] = to_string(index.compression);
  return io::to_json(tree).json + "\n";
}

ElementIndex parse_index(std::string_view text, const io::Path& path) {
  try {
    const io::StateTree tree = io::from_json(base::trim(text));
    checked(tree.as_uint64("brigade_elements"), kVersion, kVersion, "the version of the format");
    ElementIndex index;
    index.type = tree.as_string("type");
    index.pipeline = load_pipeline_description(tree.at("recipe"));
    index.seed = tree.as_uint64("seed");
    index.shard = tree.as_string("shard");
    index.count = checked(tree.as_uint64("count"), 0, ~std::uint64_t{0} >> 1, "count");
    index.files = checked(tree.as_uint64("files"), 1, kMaxFiles, "files");
    index.compression = compression_named(tree.as_string("compression"));
    return index;
  } catch (const Error& error) {
    throw Error(ErrorCode::kDataLoss, str_cat(path, " is not an index of elements: ", error.what(),
                                              "; delete its folder to write it again"));
  }
}

std::optional<ElementIndex> find_index(const io::FileSystem& files, const io::Path& folder) {
  const io::Path path = index_path(folder);
  if (!files.exists(path)) return std::nullopt;
  return parse_index(io::read_at_most(files, path, io::kMostBytesOfText), path);
}

void check_index(const ElementIndex& found, const ElementIndex& expected, const io::Path& folder) {
  const auto refuse = [&](std::string_view why) {
    throw Error(ErrorCode::kFailedPrecondition,
                str_cat(folder, " holds other elements: ", why, ". Delete ", folder,
                        " to write it again, or give another path."));
  };
  if (found.type != expected.type) {
    refuse(str_cat("they are of the type ", found.type, ", not ", expected.type));
  }
  if (expected.pipeline.empty()) return;
  const std::string different = difference(found.pipeline, expected.pipeline);
  if (different.empty()) return;
  refuse(str_cat("they were written from ", describe(found.pipeline), ", and the input is ",
                 describe(expected.pipeline), " here: ", different));
}

}  // namespace brigade::data::internal
