#include "brigade/data/sources/files.h"

#include "brigade/base/error.h"
#include "brigade/base/random.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/error_context.h"

namespace brigade::data::internal {
namespace {

constexpr const char* kFiles = "files";

/// The deepest folder that contains all files.
io::Path common_folder(const std::vector<io::Path>& paths) {
  io::Path common = paths.front().parent_path();
  for (const io::Path& path : paths) {
    const io::Path folder = path.parent_path();
    io::Path shared;
    for (auto a = common.begin(), b = folder.begin();
         a != common.end() && b != folder.end() && *a == *b; ++a, ++b) {
      shared /= *a;
    }
    common = shared;
  }
  return common;
}

std::uint64_t fingerprint_of(const std::vector<io::Path>& paths) {
  const io::Path folder = common_folder(paths);
  std::uint64_t fingerprint = paths.size();
  for (const io::Path& path : paths) {
    const io::Path below = folder.empty() ? path : path.lexically_relative(folder);
    fingerprint = base::derive_seed(fingerprint, below.generic_string(), 0, 0);
  }
  return fingerprint;
}

}  // namespace

FileList::FileList(std::vector<io::Path> paths, std::string source)
    : source_(std::move(source)), paths_(std::move(paths)), fingerprint_(0) {
  check_argument(!paths_.empty(), source_, ": the list of files is empty; there must be 1 or more");
  fingerprint_ = fingerprint_of(paths_);
}

std::string FileList::describe() const {
  const std::string more = size() == 1 ? "" : base::str_cat(" and ", size() - 1, " more");
  return base::str_cat(source_, "(", paths_.front().string(), more, ")");
}

PipelineDescription FileList::pipeline() const {
  return {base::str_cat(source_, "(", size(), " files, list ", fingerprint_, ")")};
}

ShardingInfo FileList::sharding() const {
  return {.files = static_cast<std::int64_t>(size()), .file_list_hash = fingerprint_};
}

io::StateTree FileList::save(std::uint64_t done, std::optional<io::StateTree> inner) const {
  return make_position(kFiles, {{"done", done}, {"files", size()}, {"list", fingerprint_}},
                       std::move(inner));
}

std::uint64_t FileList::done_in(const io::StateTree& state) const {
  check_position(state, kFiles);
  const std::uint64_t saved = position_number(state, "files");
  check_argument(saved == size(), "The position was saved in a list of ", saved, " files, and ",
                 describe(), " has ", size(), ": give the same files.");
  check_argument(position_number(state, "list") == fingerprint_,
                 "The position was saved in other files than ", describe(),
                 ", or in another order of them: give the same list.");
  const std::uint64_t done = position_number(state, "done");
  check_argument(done <= size(), "A saved position is broken: ", done, " of ", size(),
                 " files are done.");
  return done;
}

void FileList::check_has(std::uint64_t file) const {
  check_argument(file < size(), "A saved position is broken: it is in file ", file, " of ", size(),
                 ", counted from 0.");
}

void FileList::rethrow_in(std::uint64_t file) const {
  rethrow_with_context(base::str_cat("In the file ", paths_[file].string(), ": "));
}

FilesOfShard::FilesOfShard(const Shard& shard) {
  if (shard.by != ShardBy::kFiles) return;
  first = static_cast<std::uint64_t>(shard.index);
  stride = static_cast<std::uint64_t>(shard.count);
}

IteratorOptions options_of_file(IteratorOptions options, std::uint64_t file) {
  options.seed = base::derive_seed(options.seed, "file", file, 0);
  options.shard = Shard();
  options.order = Order::kInOrder;  // a saved position counts elements of the file
  options.stages = nullptr;         // their work is that of this step
  return options;
}

std::shared_ptr<const io::FileSystem> file_system_or_default(
    std::shared_ptr<const io::FileSystem> given) {
  return given != nullptr ? std::move(given) : io::posix_file_system();
}

void check_buffer(std::size_t buffer_bytes, std::string_view source) {
  check_argument(buffer_bytes >= 1, source, ": buffer_bytes is 0; it must be 1 or more");
}

io::StateTree save_file_position(std::string_view source, const FilePosition& position) {
  return make_position(
      source, {{"offset", position.offset}, {"at_end", std::uint64_t{position.is_at_end}}});
}

FilePosition load_file_position(const io::StateTree& state, std::string_view source) {
  check_position(state, source);
  return {.offset = position_number(state, "offset"),
          .is_at_end = position_number(state, "at_end") != 0};
}

}  // namespace brigade::data::internal
