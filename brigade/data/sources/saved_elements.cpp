#include "brigade/data/sources/saved_elements.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {
namespace {

using base::str_cat;

[[noreturn]] void throw_exists(const io::Path& folder) {
  throw Error(ErrorCode::kAlreadyExists, "save: there are elements in ", folder,
              " already; delete the folder, or give another path");
}

}  // namespace

void check_nothing_saved(const io::FileSystem& files, const io::Path& folder) {
  if (files.exists(index_path(folder))) throw_exists(folder);
}

void finish_saving(ElementWriter& writer, const io::Path& folder) {
  if (writer.commit() == ElementWriter::Commit::kLost) throw_exists(folder);
}

std::shared_ptr<const ElementFiles> open_saved(std::shared_ptr<io::FileSystem> files,
                                               const io::Path& folder, const std::string& type) {
  check_argument(files != nullptr, "load: the file system is null");
  const auto index = find_index(*files, folder);
  if (!index) {
    throw Error(ErrorCode::kNotFound, "load: there are no elements in ", folder,
                "; name a folder that save, cache or snapshot wrote");
  }
  check_index(*index, {.type = type, .pipeline = {}}, folder);
  return std::make_shared<const ElementFiles>(std::move(files), folder, *index);
}

PipelineDescription pipeline_of_saved(const ElementIndex& index) {
  return {str_cat("load(", index.count, " elements of ", describe(index.pipeline), ", seed ",
                  index.seed, ", ", index.shard, ")")};
}

}  // namespace brigade::data::internal
