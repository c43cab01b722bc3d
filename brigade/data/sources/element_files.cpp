#include "brigade/data/sources/element_files.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
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
  throw Error(ErrorCode::kInvalidArgument, "unknown compression ", name);
}

std::uint64_t checked(std::uint64_t value, std::uint64_t least, std::uint64_t most,
                      std::string_view what) {
  check_argument(value >= least && value <= most, what, " is ", value);
  return value;
}

std::vector<std::uint64_t> read_offsets(const io::FileSystem& files, const io::Path& path,
                                        std::uint64_t elements) {
  io::RecordReader table(files, path);
  std::vector<std::uint64_t> offsets;
  while (const auto record = table.next()) {
    const auto some = decode<std::vector<std::uint64_t>>(*record);
    offsets.insert(offsets.end(), some.begin(), some.end());
    if (offsets.size() > elements + 1) break;
  }
  if (offsets.size() == elements + 1) return offsets;
  throw Error(ErrorCode::kDataLoss, path, " has ", offsets.size(), " offsets for ", elements,
              " elements: it is broken; delete its folder to write it again.");
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
    throw Error(ErrorCode::kDataLoss, path, " is not an index of elements: ", error.what(),
                "; delete its folder to write it again");
  }
}

std::optional<ElementIndex> find_index(const io::FileSystem& files, const io::Path& folder) {
  const io::Path path = index_path(folder);
  if (!files.exists(path)) return std::nullopt;
  return parse_index(io::read_at_most(files, path, io::kMostBytesOfText), path);
}

void check_index(const ElementIndex& found, const ElementIndex& expected, const io::Path& folder) {
  const auto refuse = [&](const auto&... why) {
    throw Error(ErrorCode::kFailedPrecondition, folder, " holds other elements: ", why...,
                ". Delete ", folder, " to write it again, or give another path.");
  };
  if (found.type != expected.type) {
    refuse("they are of the type ", found.type, ", not ", expected.type);
  }
  if (expected.pipeline.empty()) return;
  const std::string different = difference(found.pipeline, expected.pipeline);
  if (different.empty()) return;
  refuse("they were written from ", describe(found.pipeline), ", and the input is ",
         describe(expected.pipeline), " here: ", different);
}

ElementFiles::ElementFiles(std::shared_ptr<const io::FileSystem> files, io::Path folder,
                           ElementIndex index)
    : files_(std::move(files)), folder_(std::move(folder)), index_(std::move(index)) {
  for (std::uint64_t file = 0; file < index_.files; ++file) {
    offsets_.push_back(read_offsets(*files_, offsets_path(folder_, file, index_.files),
                                    elements_in_file(index_, file)));
  }
}

std::string ElementFiles::describe_element(std::uint64_t position) const {
  return str_cat("Element ", position, " in ", folder_, ": ");
}

io::RecordReader ElementFiles::open(std::uint64_t file) const {
  return io::RecordReader(*files_, records_path(folder_, file, index_.files),
                          {.compression = index_.compression});
}

ElementFileReader::ElementFileReader(std::shared_ptr<const ElementFiles> elements,
                                     std::uint64_t file)
    : elements_(std::move(elements)),
      file_(file),
      size_(elements_in_file(elements_->index(), file)) {}

std::string ElementFileReader::describe_element(std::uint64_t position) const {
  return elements_->describe_element(position * elements_->index().files + file_);
}

std::string ElementFileReader::read(std::uint64_t position) {
  if (!records_) records_.emplace(elements_->open(file_));
  if (position != next_) {
    records_->seek(elements_->offset(file_, position));
    next_ = position;
  }
  std::optional<std::string> record = records_->next();
  if (!record) throw Error(ErrorCode::kDataLoss, "its file ends before it.");
  ++next_;
  return std::move(*record);
}

}  // namespace brigade::data::internal
