#pragma once

#include "brigade/data/dataset.h"
#include "brigade/input/image_output.h"
#include "brigade/input/labeled_example.h"
#include "brigade/input/tensor_structure.h"
#include "brigade/io/file_system.h"

namespace brigade::input {

/// The two parts of MNIST, Fashion-MNIST and CIFAR: for training, and for testing.
enum class Split {
  kTrain,  ///< The files train-*: 60,000 examples.
  kTest,   ///< The files t10k-*: 10,000 examples.
};

/// "train" or "test".
std::string_view to_string(Split split);

/// The directory of Debian's package dataset-fashion-mnist.
inline constexpr const char* kFashionMnistDirectory = "/usr/share/datasets/fashion-mnist";

/// Fashion-MNIST: images of clothes in ten classes. Each example has float features [1, 28, 28]
/// in [0, 1] and a label 0 to 9. All examples are converted by this call and stay in memory (188 MB
/// for the training split); with kBytes they stay bytes, for `ImageNormalizer::unit_range`.
///
/// `directory` holds the four idx files, with or without ".gz" at the end of their names. Throws
/// kNotFound, naming the package and the flag to set, if the folder or a file is missing;
/// kInvalidArgument or kDataLoss, naming the file, if a file has another format, is truncated or
/// corrupt, or if the numbers of images and labels differ.
data::Dataset<LabeledExample> fashion_mnist(const io::Path& directory = kFashionMnistDirectory,
                                            Split split = Split::kTrain,
                                            ImageOutput output = ImageOutput::kNormalized);

/// The handwritten digits of MNIST, from the same four file names; otherwise as `fashion_mnist`.
data::Dataset<LabeledExample> mnist(const io::Path& directory, Split split = Split::kTrain,
                                    ImageOutput output = ImageOutput::kNormalized);

/// As above, on any file system.
data::Dataset<LabeledExample> fashion_mnist(const io::FileSystem& files, const io::Path& directory,
                                            Split split,
                                            ImageOutput output = ImageOutput::kNormalized);
data::Dataset<LabeledExample> mnist(const io::FileSystem& files, const io::Path& directory,
                                    Split split, ImageOutput output = ImageOutput::kNormalized);

}  // namespace brigade::input
