#include "brigade/input/cifar.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/source.h"
#include "brigade/data/formats/fixed_length_records.h"

namespace brigade::input {
namespace {

constexpr std::int64_t kCifarSide = 32;
constexpr std::size_t kPixelBytes = 3 * kCifarSide * kCifarSide;

/// One of the labels of a record.
struct LabelByte {
  std::string_view name;  // in messages
  int classes;
};

/// The differences between the two data sets.
struct CifarKind {
  std::string_view name;
  std::string_view title;
  std::string_view folder;  // in the archive
  std::vector<std::string> train, test;
  std::vector<LabelByte> labels;  // in the order of the bytes
  std::size_t label = 0;          // [labels]: the one of the examples

  std::size_t record_bytes() const { return labels.size() + kPixelBytes; }
};

CifarKind cifar10_kind() {
  return {.name = "cifar10",
          .title = "CIFAR-10",
          .folder = "cifar-10-batches-bin",
          .train = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                    "data_batch_5.bin"},
          .test = {"test_batch.bin"},
          .labels = {{"label", 10}}};
}

CifarKind cifar100_kind(Cifar100Labels labels) {
  return {.name = labels == Cifar100Labels::kFine ? "cifar100" : "cifar100_coarse",
          .title = "CIFAR-100",
          .folder = "cifar-100-binary",
          .train = {"train.bin"},
          .test = {"test.bin"},
          .labels = {{"coarse label", 20}, {"fine label", 100}},
          .label = labels == Cifar100Labels::kFine ? 1U : 0U};
}

/// The paths of the files, in `directory` or in the folder of the archive in it. Throws kNotFound
/// with the remedy.
std::vector<io::Path> find_files(const io::FileSystem& files, const io::Path& directory,
                                 const CifarKind& kind, Split split) {
  const auto& names = split == Split::kTrain ? kind.train : kind.test;
  const io::Path inner = directory / kind.folder;
  const io::Path& folder = files.exists(inner) ? inner : directory;
  std::vector<io::Path> paths;
  for (const std::string& name : names) {
    paths.push_back(folder / name);
    if (files.exists(paths.back())) continue;
    const std::string missing = files.exists(folder) ? base::str_cat("no ", name, " in ", folder)
                                                     : base::str_cat("no folder ", directory);
    throw Error(ErrorCode::kNotFound, "No ", kind.title, ": there is ", missing,
                "; unpack the archive of its binary version, and name its folder ", kind.folder);
  }
  return paths;
}

/// All bytes of a split, which examples are made of.
struct CifarRecords {
  std::vector<std::uint8_t> pixels;  // kPixelBytes for each example
  std::vector<std::uint8_t> labels;

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
};

void check_cifar_size(const io::Path& path, std::uint64_t bytes, const CifarKind& kind) {
  const std::size_t record = kind.record_bytes();
  check_argument(bytes > 0, path, " is empty; expected records of ", record,
                 " bytes, as in the binary version of ", kind.title);
  if (bytes % record == 0) return;
  throw Error(ErrorCode::kDataLoss, path, " has ", bytes, " bytes: record ", bytes / record,
              " has only ", bytes % record, " of its ", record,
              "; the file is truncated, or not of the binary version of ", kind.title);
}

void check_labels(const io::Path& path, std::int64_t record, std::string_view bytes,
                  const CifarKind& kind) {
  for (std::size_t i = 0; i < kind.labels.size(); ++i) {
    const int value = static_cast<std::uint8_t>(bytes[i]);
    const LabelByte& label = kind.labels[i];
    check_argument(value < label.classes, "Record ", record, " of ", path, " has the ", label.name,
                   " ", value, "; there are only classes 0 to ", label.classes - 1,
                   " in the binary version of ", kind.title);
  }
}

void append_records(const std::shared_ptr<const io::FileSystem>& files, const io::Path& path,
                    const CifarKind& kind, CifarRecords& records) {
  const auto info = files->info(path);
  check_cifar_size(path, info ? info->size : 0, kind);
  const auto dataset = data::fixed_length_records(
      {path},
      {.record_bytes = static_cast<std::int64_t>(kind.record_bytes()), .file_system = files});
  std::int64_t number = 0;
  for (const std::string& record : dataset) {
    check_labels(path, number++, record, kind);
    records.labels.push_back(static_cast<std::uint8_t>(record[kind.label]));
    records.pixels.insert(records.pixels.end(),
                          record.begin() + static_cast<std::ptrdiff_t>(kind.labels.size()),
                          record.end());
  }
}

CifarRecords read_records(const std::shared_ptr<const io::FileSystem>& files,
                          const std::vector<io::Path>& paths, const CifarKind& kind) {
  std::uint64_t bytes = 0;
  for (const io::Path& path : paths) {
    const auto info = files->info(path);
    bytes += info ? info->size : 0;
  }
  CifarRecords records;
  records.pixels.reserve(bytes);
  for (const io::Path& path : paths) append_records(files, path, kind, records);
  return records;
}

LabeledExample example_of(const CifarRecords& records, std::int64_t index, ImageOutput output) {
  const auto number = static_cast<std::size_t>(index);
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  const bool is_float = output == ImageOutput::kNormalized;
  at::Tensor features = at::empty({3, kCifarSide, kCifarSide}, is_float ? at::kFloat : at::kByte);
  const std::uint8_t* from = records.pixels.data() + number * kPixelBytes;
  if (is_float) {
    auto* to = features.mutable_data_ptr<float>();
    for (std::size_t i = 0; i < kPixelBytes; ++i) to[i] = static_cast<float>(from[i]) / 255.0F;
  } else {
    std::copy_n(from, kPixelBytes, features.mutable_data_ptr<std::uint8_t>());
  }
  return {std::move(features), records.labels[number]};
}

data::Dataset<LabeledExample> load_cifar(const std::shared_ptr<const io::FileSystem>& files,
                                         const io::Path& directory, Split split, ImageOutput output,
                                         const CifarKind& kind) {
  const auto records = std::make_shared<const CifarRecords>(
      read_records(files, find_files(*files, directory, kind, split), kind));
  return data::from_indexed<LabeledExample>(
      records->size(),
      [records, output](std::int64_t index) { return example_of(*records, index, output); },
      base::str_cat(kind.name, "(", to_string(split), ")"));
}

/// Without ownership: all is read before the caller's function returns.
std::shared_ptr<const io::FileSystem> borrowed(const io::FileSystem& files) {
  return {std::shared_ptr<const io::FileSystem>(), &files};
}

}  // namespace

data::Dataset<LabeledExample> cifar10(const io::FileSystem& files, const io::Path& directory,
                                      Split split, ImageOutput output) {
  return load_cifar(borrowed(files), directory, split, output, cifar10_kind());
}

data::Dataset<LabeledExample> cifar100(const io::FileSystem& files, const io::Path& directory,
                                       Split split, Cifar100Labels labels, ImageOutput output) {
  return load_cifar(borrowed(files), directory, split, output, cifar100_kind(labels));
}

data::Dataset<LabeledExample> cifar10(const io::Path& directory, Split split, ImageOutput output) {
  return cifar10(*io::posix_file_system(), directory, split, output);
}

data::Dataset<LabeledExample> cifar100(const io::Path& directory, Split split,
                                       Cifar100Labels labels, ImageOutput output) {
  return cifar100(*io::posix_file_system(), directory, split, labels, output);
}

}  // namespace brigade::input
