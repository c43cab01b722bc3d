#pragma once

#include "brigade/data/dataset.h"
#include "brigade/input/labeled_example.h"
#include "brigade/input/mnist.h"
#include "brigade/io/file_system.h"

namespace brigade::input {

/// CIFAR-10 (Krizhevsky, 2009): color photographs of 32x32 pixels in ten classes, 50,000 to train
/// and 10,000 to test. Each example has float features [3, 32, 32] in [0, 1], channels red, green
/// and blue, and a label 0 to 9. The bytes stay in memory (154 MB for the training split); an
/// example is converted when it is read, or with kBytes stays bytes, for
/// `ImageNormalizer::unit_range`. In the order of the files.
///
/// `directory` holds the files of the "binary version", data_batch_1.bin to data_batch_5.bin and
/// test_batch.bin, or the folder cifar-10-batches-bin with them, as the archive unpacks. Each file
/// may have any number of records, so that a subset can be used. Throws kNotFound, naming the file,
/// if the folder or a file is missing; kDataLoss, naming the file and the record, if a file ends
/// within a record; kInvalidArgument if a file is empty or a label is not a class, which are signs
/// of another kind of file.
///
/// Keras: keras.datasets.cifar10.
data::Dataset<LabeledExample> cifar10(const io::Path& directory, Split split = Split::kTrain,
                                      ImageOutput output = ImageOutput::kNormalized);

/// The two labels of an image of CIFAR-100.
enum class Cifar100Labels {
  kFine,    ///< 100 classes: apple, aquarium fish, ...
  kCoarse,  ///< 20 superclasses: aquatic mammals, fish, ...
};

/// CIFAR-100: as CIFAR-10, in 100 classes that belong to 20 superclasses. Its files are train.bin
/// and test.bin, in `directory` or in its folder cifar-100-binary. Otherwise as `cifar10`; both
/// labels of each record are checked. Keras: keras.datasets.cifar100.
data::Dataset<LabeledExample> cifar100(const io::Path& directory, Split split = Split::kTrain,
                                       Cifar100Labels labels = Cifar100Labels::kFine,
                                       ImageOutput output = ImageOutput::kNormalized);

/// As above, on any file system.
data::Dataset<LabeledExample> cifar10(const io::FileSystem& files, const io::Path& directory,
                                      Split split, ImageOutput output = ImageOutput::kNormalized);
data::Dataset<LabeledExample> cifar100(const io::FileSystem& files, const io::Path& directory,
                                       Split split, Cifar100Labels labels = Cifar100Labels::kFine,
                                       ImageOutput output = ImageOutput::kNormalized);

}  // namespace brigade::input
