#pragma once

#include <filesystem>
#include <string>

#include "brigade/data/dataset.h"
#include "brigade/input/labeled_example.h"
#include "brigade/input/tensor_structure.h"

namespace brigade::benchmarks {

/// The infinite pipelines of the input benchmarks; their counterparts are in
/// peers/tensorflow_input.py. All threads and buffers are the library's own choice.

/// Fashion-MNIST in memory, shuffled by 10,000, in batches of 128.
data::Dataset<input::LabeledBatch> mnist_batches();

/// The images below `directory`/jpeg: a random window of 224 x 224 decoded, flipped at random,
/// normalized; batches of 32.
data::Dataset<at::Tensor> jpeg_crops(const std::filesystem::path& directory);

/// The examples below `directory`/records: a image of 784 bytes and a label; batches of 128.
data::Dataset<input::LabeledBatch> parsed_records(const std::filesystem::path& directory);

/// Writes below `directory` the files that the input benchmark `word` reads: 1,000 JPEG files of
/// 500 x 375 in ten folders for "jpeg" (half photographs made up of shapes and noise, half images
/// of Fashion-MNIST enlarged), 60,000 examples of Fashion-MNIST in four TFRecord files for
/// "records"; nothing for "mnist".
void make_input_files(const std::string& word, const std::filesystem::path& directory);

}  // namespace brigade::benchmarks
