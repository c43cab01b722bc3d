#include "brigade/data/sources/element_files.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {
namespace {

using base::str_cat;

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
  throw Error(ErrorCode::kDataLoss,
              str_cat(path, " has ", offsets.size(), " offsets for ", elements,
                      " elements: it is broken; delete its folder to write it again."));
}

}  // namespace

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
