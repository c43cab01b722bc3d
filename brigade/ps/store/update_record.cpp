#include "brigade/ps/store/update_record.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/device/dtypes.h"
#include "brigade/io/state_json.h"

namespace brigade::ps {

namespace {

static_assert(std::endian::native == std::endian::little, "records are little-endian");

constexpr std::string_view kHeader = "header";
constexpr std::string_view kTensors = "tensors";
constexpr std::string_view kName = "name";
constexpr std::string_view kDtype = "dtype";
constexpr std::string_view kShape = "shape";

// As libtorch aligns its tensors. Spaces after the text let the first tensor begin there.
constexpr std::size_t kAlignment = 64;

[[noreturn]] void fail(std::string_view why) {
  throw Error(ErrorCode::kDataLoss, "A record of a server's log is damaged: ", why);
}

io::StateTree describe(const checkpoint::NamedTensor& each) {
  check_recordable(each);
  const auto dtype = device::file_dtype_of(each.tensor.scalar_type());
  io::StateTree tree;
  tree[kName] = each.name;
  tree[kDtype] = dtype->safetensors;
  tree[kShape] = io::StateTree::list();
  for (const std::int64_t size : each.tensor.sizes()) tree[kShape].push_back(size);
  return tree;
}

/// The sizes and their product in bytes, or nothing if it exceeds `most`.
std::optional<std::uint64_t> bytes_of(const std::vector<std::int64_t>& shape, std::int64_t element,
                                      std::uint64_t most) {
  std::uint64_t bytes = static_cast<std::uint64_t>(element);
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size != 0 && bytes > most / static_cast<std::uint64_t>(size)) return std::nullopt;
    bytes *= static_cast<std::uint64_t>(size);
  }
  return bytes <= most ? std::optional(bytes) : std::nullopt;
}

/// A tensor of these bytes. With an owner it shares their memory, if that is aligned as its own
/// would be, so that kernels treat both alike.
at::Tensor tensor_of(std::string_view bytes, const std::vector<std::int64_t>& shape,
                     const device::FileDtype& dtype, const std::shared_ptr<const void>& owner) {
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % kAlignment == 0;
  if (owner && is_aligned && !bytes.empty()) {
    const auto keep = [owner](void*) {};
    return at::from_blob(const_cast<char*>(bytes.data()), shape, keep, dtype.type);
  }
  at::Tensor tensor = at::empty(shape, dtype.type);
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

/// Takes the tensor that `tree` describes from the front of `bytes`.
checkpoint::NamedTensor take_tensor(const io::StateTree& tree, std::string_view& bytes,
                                    const std::shared_ptr<const void>& owner) {
  const auto dtype = device::file_dtype_named(tree.as_string(kDtype));
  if (!dtype) fail("a tensor has an unknown dtype.");
  std::vector<std::int64_t> shape;
  for (const io::StateTree& size : tree.as_list(kShape)) shape.push_back(size.as_int64());
  const auto count = bytes_of(shape, dtype->bytes, bytes.size());
  if (!count) fail("a tensor is longer than the record.");
  checkpoint::NamedTensor result{
      .name = tree.as_string(kName),
      .tensor = tensor_of(bytes.substr(0, *count), shape, *dtype, owner)};
  bytes.remove_prefix(*count);
  return result;
}

/// The length of the text, and the text, with spaces at its end: `bytes` in all, or as few as
/// possible.
std::string text_of(const UpdateRecord& record, std::size_t bytes = 0) {
  io::StateTree tree;
  tree[kHeader] = record.header;
  tree[kTensors] = io::StateTree::list();
  for (const checkpoint::NamedTensor& each : record.tensors)
    tree[kTensors].push_back(describe(each));
  const io::StateJson text = io::to_json(tree);
  check_argument(text.arrays.empty(), "The header of a server's record contains an array.");
  const std::size_t written = sizeof(std::uint64_t) + text.json.size();
  const std::size_t least = (written + kAlignment - 1) / kAlignment * kAlignment;
  const std::size_t padded = bytes == 0 ? least : bytes;
  if (padded < least)
    throw Error(ErrorCode::kInternal, "The text of a message has ", least, " bytes, and room for ",
                padded, ".");
  const std::uint64_t length = padded - sizeof length;
  std::string encoded;
  encoded.reserve(padded);
  encoded.append(reinterpret_cast<const char*>(&length), sizeof length);
  encoded += text.json;
  encoded.resize(padded, ' ');
  return encoded;
}

UpdateRecord decode(std::string_view bytes, const std::shared_ptr<const void>& owner) {
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) fail("it has no header.");
  std::memcpy(&length, bytes.data(), sizeof length);
  bytes.remove_prefix(sizeof length);
  if (length > bytes.size()) fail("its header is longer than the record.");
  const io::StateTree tree = io::from_json(bytes.substr(0, length));
  bytes.remove_prefix(length);
  UpdateRecord record;
  try {
    record.header = tree.at(kHeader);
    for (const io::StateTree& each : tree.as_list(kTensors))
      record.tensors.push_back(take_tensor(each, bytes, owner));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    fail(error.what());
  }
  if (!bytes.empty()) fail("bytes follow its last tensor.");
  return record;
}

}  // namespace

void check_recordable(const checkpoint::NamedTensor& tensor) {
  const at::Tensor& value = tensor.tensor;
  const std::string name = base::quoted(tensor.name);
  check_argument(value.defined(), "Tensor ", name, " for a server is undefined.");
  check_argument(
      value.layout() == at::kStrided && value.is_cpu() &&
          device::file_dtype_of(value.scalar_type()).has_value(),
      "Tensor ", name,
      " cannot be in a server's log: it must be dense, on the CPU, and have one of the dtypes ",
      device::file_dtype_names(), ".");
}

std::string encode_update(const UpdateRecord& record) {
  return encode_update_in_pieces(record).joined();
}

std::string encode_update_text(const UpdateRecord& record) {
  return text_of(record);
}

io::BytePieces encode_update_in_pieces(const UpdateRecord& record, std::size_t text_bytes) {
  io::BytePieces pieces(text_of(record, text_bytes));
  for (const checkpoint::NamedTensor& each : record.tensors) {
    const auto tensor = std::make_shared<const at::Tensor>(each.tensor.contiguous());
    if (tensor->nbytes() == 0) continue;
    const std::string_view bytes(static_cast<const char*>(tensor->const_data_ptr()),
                                 tensor->nbytes());
    pieces.append({.bytes = bytes, .owner = tensor});
  }
  return pieces;
}

UpdateRecord decode_update(std::string_view bytes) {
  return decode(bytes, nullptr);
}

UpdateRecord decode_update(const io::SharedBytes& bytes) {
  return decode(bytes.bytes, bytes.owner);
}

}  // namespace brigade::ps
