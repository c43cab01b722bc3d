#include "brigade/data/transforms/file_cache.h"

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {

using base::str_cat;

void check_element_files(const ElementFilesOptions& options, const io::Path& folder,
                         const std::string& step) {
  constexpr std::int64_t kMaxElementFiles = 256;  // each is read by a thread
  check_argument(options.files >= 1 && options.files <= kMaxElementFiles, step, ": files is ",
                 options.files, "; it must be 1 to ", kMaxElementFiles);
  check_argument(options.compression == io::Compression::kNone ||
                     options.compression == io::Compression::kGzip,
                 step, ": compression is ", options.compression, "; it must be none or gzip");
  check_argument(options.file_system != nullptr, step, ": file_system is null");
  check_argument(!folder.empty(), step, ": the path is empty; name a folder");
}

io::Path folder_of_shard(const io::Path& folder, const Shard& shard) {
  const io::Path plain = folder.has_filename() ? folder : folder.parent_path();
  if (shard.count == 1) return plain;
  io::Path beside = plain;
  beside += str_cat(".shard-", shard.index, "-of-", shard.count, "-by-",
                    shard.by == ShardBy::kFiles ? "files" : "hint");
  return beside;
}

FileCache::FileCache(io::Path folder, ElementFilesOptions options, std::string type,
                     PipelineDescription pipeline, std::string describe)
    : folder_(std::move(folder)),
      options_(std::move(options)),
      type_(std::move(type)),
      pipeline_(std::move(pipeline)),
      describe_(std::move(describe)) {}

ElementIndex FileCache::index_of(const IteratorOptions& options) const {
  return {.type = type_,
          .pipeline = pipeline_,
          .seed = options.seed,
          .shard = describe(options.shard),
          .files = static_cast<std::uint64_t>(options_.files),
          .compression = options_.compression};
}

std::shared_ptr<const ElementFiles> FileCache::find(const IteratorOptions& options) const {
  const io::Path folder = folder_of_shard(folder_, options.shard);
  const auto index = find_index(*options_.file_system, folder);
  if (!index) return nullptr;
  check_index(*index, index_of(options), folder);
  if (index->seed == options.seed && index->shard == describe(options.shard)) {
    return std::make_shared<const ElementFiles>(options_.file_system, folder, *index);
  }
  if (wants_warning()) {
    base::log_warning(folder, " holds elements of the seed ", index->seed,
                      ", and this iterator has the seed ", options.seed,
                      ": it reads its input. Delete ", folder,
                      " to write them again, or give another path.");
  }
  return nullptr;
}

std::unique_ptr<ElementWriter> FileCache::write(const IteratorOptions& options) const {
  const io::Path folder = folder_of_shard(folder_, options.shard);
  if (find_index(*options_.file_system, folder)) return nullptr;
  return std::make_unique<ElementWriter>(options_.file_system, folder, index_of(options));
}

bool FileCache::wants_warning() const {
  concurrency::MutexLock lock(mutex_);
  return !std::exchange(has_warned_, true);
}

void FileCache::warn_of_partial(std::uint64_t elements) const noexcept {
  if (wants_warning()) warn_of_partial_pass(describe_, elements);
}
void FileCache::warn_of_failure() const noexcept {
  if (wants_warning()) warn_of_failed_element(describe_);
}

}  // namespace brigade::data::internal
