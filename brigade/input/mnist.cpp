#include "brigade/input/mnist.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <string>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/input/idx.h"
#include "brigade/input/tensor_slices.h"

namespace brigade::input {
namespace {

constexpr std::int64_t kSide = 28;
constexpr std::int64_t kClasses = 10;

/// The differences between the two data sets.
struct Kind {
  std::string_view name;
  std::string_view title;
  std::string_view remedy;  // what to do if the files are missing
};

constexpr Kind kFashion{"fashion_mnist", "Fashion-MNIST",
                        "install Debian's package dataset-fashion-mnist, or name another folder"};
constexpr Kind kDigits{"mnist", "MNIST", "put its four idx files into a folder and name that"};

/// The file under either name. Throws kNotFound with the remedy.
io::Path find_file(const io::FileSystem& files, const io::Path& directory, const std::string& name,
                   const Kind& kind) {
  for (const std::string& candidate : {name, name + ".gz"}) {
    if (files.exists(directory / candidate)) return directory / candidate;
  }
  const auto found = files.info(directory);
  const bool is_directory = found && found->kind == io::FileKind::kDirectory;
  const std::string missing = is_directory
                                  ? base::str_cat("neither ", name, " nor ", name, ".gz in ")
                                  : std::string("no folder ");
  throw Error(ErrorCode::kNotFound, "No ", kind.title, ": there is ", missing, directory, "; ",
              kind.remedy);
}

void check_contents(const at::Tensor& images, const io::Path& image_path, const at::Tensor& labels,
                    const io::Path& label_path) {
  check_argument(images.size(1) == kSide && images.size(2) == kSide, "The images of ", image_path,
                 " are ", images.size(1), "x", images.size(2), ", expected ", kSide, "x", kSide);
  check_argument(images.size(0) == labels.size(0), image_path, " has ", images.size(0),
                 " images, but ", label_path, " has ", labels.size(0),
                 " labels: the files do not match");
  const auto* label = labels.const_data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < labels.size(0); ++i) {
    if (label[i] < kClasses) continue;
    throw Error(ErrorCode::kDataLoss, "Label ", i, " of ", label_path, " is ",
                static_cast<int>(label[i]), "; there are only classes 0 to ", kClasses - 1);
  }
}

data::Dataset<LabeledExample> load(const io::FileSystem& files, const io::Path& directory,
                                   Split split, ImageOutput output, const Kind& kind) {
  const std::string prefix = split == Split::kTrain ? "train" : "t10k";
  const io::Path image_path = find_file(files, directory, prefix + "-images-idx3-ubyte", kind);
  const io::Path label_path = find_file(files, directory, prefix + "-labels-idx1-ubyte", kind);
  const at::Tensor images = idx_images(files, image_path);
  const at::Tensor labels = idx_labels(files, label_path);
  check_contents(images, image_path, labels, label_path);
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  at::Tensor features = images.unsqueeze(1);
  if (output == ImageOutput::kNormalized) features = features.to(at::kFloat).div_(255);
  return from_tensor_slices(std::move(features), labels,
                            base::str_cat(kind.name, "(", to_string(split), ")"));
}

}  // namespace

std::string_view to_string(Split split) {
  return split == Split::kTrain ? "train" : "test";
}

data::Dataset<LabeledExample> fashion_mnist(const io::FileSystem& files, const io::Path& directory,
                                            Split split, ImageOutput output) {
  return load(files, directory, split, output, kFashion);
}

data::Dataset<LabeledExample> mnist(const io::FileSystem& files, const io::Path& directory,
                                    Split split, ImageOutput output) {
  return load(files, directory, split, output, kDigits);
}

data::Dataset<LabeledExample> fashion_mnist(const io::Path& directory, Split split,
                                            ImageOutput output) {
  return fashion_mnist(*io::posix_file_system(), directory, split, output);
}

data::Dataset<LabeledExample> mnist(const io::Path& directory, Split split, ImageOutput output) {
  return mnist(*io::posix_file_system(), directory, split, output);
}

}  // namespace brigade::input
