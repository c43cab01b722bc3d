#include "brigade/checkpoint/row_writer.h"

#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/safetensors.h"
#include "brigade/device/dtypes.h"
#include "brigade/io/atomic_write.h"
#include "brigade/io/safetensors_header.h"

namespace brigade::checkpoint {
namespace {

using base::str_cat;

constexpr std::size_t kCopiedPiece = std::size_t{1} << 20;

void copy(const io::FileSystem& files, const io::Path& from, io::WritableFile& to) {
  const auto file = files.open(from);
  std::vector<std::byte> piece(kCopiedPiece);
  while (const std::size_t count = file->read(piece)) to.write(std::span(piece).first(count));
}

template <class... Text>
[[noreturn]] void refuse_rows(const std::string& name, const Text&... text) {
  throw Error(ErrorCode::kInvalidArgument, "RowWriter: the rows of ", base::quoted(name), " ",
              text...);
}

}  // namespace

struct RowWriter::Rows {
  std::string name;
  at::ScalarType type = at::kFloat;
  io::TensorDtype dtype = {};
  std::vector<std::int64_t> shape = {};
  io::Path path = {};
  std::unique_ptr<io::WritableFile> file = nullptr;

  void check_alike(const at::Tensor& more) const {
    if (more.scalar_type() != type)
      refuse_rows(name, "are ", at::toString(more.scalar_type()), ", but they were ",
                  at::toString(type), " before");
    const auto wanted = at::IntArrayRef(shape).slice(1);
    if (more.sizes().slice(1) != wanted)
      refuse_rows(name, "have shape ", more.sizes().slice(1), ", but they had ", wanted, " before");
  }
};

RowWriter::RowWriter(std::shared_ptr<io::FileSystem> files, io::Path path)
    : files_(std::move(files)), path_(std::move(path)) {
  check_argument(files_ != nullptr, "RowWriter: needs a file system");
  check_argument(path_.has_filename() && path_.filename() != "." && path_.filename() != "..",
                 "RowWriter: ", base::quoted(path_.string()), " names no file");
}

RowWriter::~RowWriter() {
  for (const auto& rows : all_) {
    rows->file.reset();
    try {
      files_->remove(rows->path);
    } catch (const Error&) {  // of a disk that is gone, maybe: nothing is left to do
    }
  }
}

RowWriter::Rows& RowWriter::rows_of(const std::string& name, const at::Tensor& first) {
  const auto found = std::ranges::find(all_, name, [](const auto& rows) { return rows->name; });
  if (found != all_.end()) return **found;
  const auto dtype = device::file_dtype_of(first.scalar_type());
  if (first.layout() != at::kStrided || !dtype)
    refuse_rows(name, "are ", at::toString(first.scalar_type()), ", ", first.layout(),
                "; the format holds dense tensors of ", io::tensor_dtypes());
  auto rows = std::make_unique<Rows>(Rows{.name = name,
                                          .type = first.scalar_type(),
                                          .dtype = {dtype->safetensors, dtype->bytes},
                                          .shape = first.sizes().vec()});
  rows->shape[0] = 0;
  rows->path = path_.parent_path() /
               str_cat(".", path_.filename().string(), ".", ::getpid(), ".", all_.size(), ".rows");
  rows->file = files_->create(rows->path, io::CreateMode::kTruncate);
  all_.push_back(std::move(rows));
  return *all_.back();
}

void RowWriter::append(const std::string& name, const at::Tensor& rows) {
  if (!rows.defined() || rows.dim() == 0) refuse_rows(name, "are not a tensor of rows [n, ...]");
  Rows& before = rows_of(name, rows);
  before.check_alike(rows);
  before.shape[0] += rows.size(0);
  const at::Tensor plain = rows.detach().cpu().resolve_neg().contiguous();
  if (plain.numel() == 0) return;
  before.file->write({static_cast<const std::byte*>(plain.const_data_ptr()), plain.nbytes()});
}

std::vector<RowWriter::Written> RowWriter::written() const {
  std::vector<Written> result;
  for (const auto& rows : all_) result.push_back({rows->name, rows->type, rows->shape});
  return result;
}

void RowWriter::finish(const std::map<std::string, std::string>& metadata) {
  std::vector<const Rows*> order;
  for (const auto& rows : all_) {
    if (rows->file) rows->file->close();
    rows->file.reset();
    order.push_back(rows.get());
  }
  std::ranges::sort(order, [](const Rows* a, const Rows* b) {  // as `save_safetensors`
    return a->dtype.bytes != b->dtype.bytes ? a->dtype.bytes > b->dtype.bytes : a->name < b->name;
  });
  io::SafetensorsHeader header{.tensors = {}, .metadata = metadata};
  std::uint64_t position = 0;
  for (const Rows* rows : order) {
    const std::uint64_t end = position + *io::tensor_bytes(rows->shape, rows->dtype.bytes);
    header.tensors.push_back({rows->name, rows->dtype, rows->shape, position, end});
    position = end;
  }
  const std::string text = io::write_safetensors_header(header);
  const std::uint64_t length = text.size();
  io::atomic_write(*files_, path_, [&](std::unique_ptr<io::WritableFile> file) {
    file->write(std::as_bytes(std::span(&length, 1)));
    file->write(io::as_bytes(text));
    for (const Rows* rows : order) copy(*files_, rows->path, *file);
  });
}

}  // namespace brigade::checkpoint
