#include "brigade/input/idx.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/formats/idx_header.h"
#include "brigade/io/compression.h"

namespace brigade::input {
namespace {

constexpr std::uint64_t kMaxUncompressedBytes = std::uint64_t{1}
                                                << 31;  // 40 times MNIST's training set

/// A file that is read as its header says, and no further: what the header says is compared with
/// the size of the file before there is memory for it.
class IdxFile {
 public:
  IdxFile(const io::FileSystem& files, const io::Path& path, int dimensions)
      : name_(path.string()), file_(files.open(path)) {
    std::string magic(2, '\0');
    magic.resize(file_->read(std::as_writable_bytes(std::span(magic))));
    file_->seek(0);
    is_packed_ = io::is_gzip(magic);
    if (is_packed_) {
      file_ = io::decompressed(std::move(file_), name_, io::Compression::kGzip);
    }
    std::string beginning(data::idx_header_bytes(dimensions), '\0');
    beginning.resize(file_->read(std::as_writable_bytes(std::span(beginning))));
    header_ = data::parse_idx_header(beginning, name_, dimensions);
    const auto info = files.info(path);
    check_size(info ? info->size : 0);
  }

  at::Tensor values() {
    at::Tensor tensor = allocate();
    const std::span bytes(static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes());
    const std::size_t got = bytes.empty() ? 0 : file_->read(bytes);
    std::byte more{};  // read even after an early end: a compressed file then reports its error
    const bool has_more = file_->read({&more, 1}) > 0;
    if (got < bytes.size()) data::throw_wrong_idx_size(header_, name_, base::str_cat(got));
    if (has_more) data::throw_wrong_idx_size(header_, name_, "more");
    return tensor;
  }

 private:
  void check_size(std::uint64_t file_bytes) const {
    if (!is_packed_) {
      const std::uint64_t found = file_bytes - std::min<std::uint64_t>(file_bytes, header_.bytes);
      if (found != header_.value_bytes) {
        data::throw_wrong_idx_size(header_, name_, base::str_cat(found));
      }
      return;
    }
    constexpr std::uint64_t kMaxDeflateRatio =
        1032;  // the maximum output of deflate per byte of input
    if (header_.value_bytes / kMaxDeflateRatio > file_bytes) {
      data::throw_wrong_idx_size(
          header_, name_,
          base::str_cat("at most ", kMaxDeflateRatio * file_bytes, ", decompressed"));
    }
    if (header_.value_bytes > kMaxUncompressedBytes) {
      throw Error(ErrorCode::kResourceExhausted, name_, ": more than ",
                  base::human_bytes(kMaxUncompressedBytes),
                  " once decompressed, which is more than such a file may hold; unpack it");
    }
  }
  at::Tensor allocate() const {
    try {
      return at::empty(header_.shape, at::kByte);
    } catch (const c10::Error&) {
      throw Error(ErrorCode::kResourceExhausted, "The idx file ", name_, " takes ",
                  base::human_bytes(header_.value_bytes),
                  ", for which there is no memory; is it the right file?");
    }
  }

  std::string name_;
  std::unique_ptr<io::ReadableFile> file_;
  bool is_packed_ = false;
  data::IdxHeader header_;
};

}  // namespace

at::Tensor idx_images(const io::FileSystem& files, const io::Path& path) {
  return IdxFile(files, path, 3).values();
}

at::Tensor idx_labels(const io::FileSystem& files, const io::Path& path) {
  return IdxFile(files, path, 1).values();
}

}  // namespace brigade::input
