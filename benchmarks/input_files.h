#pragma once

#include <filesystem>
#include <string>

namespace brigade::benchmarks {

/// Writes below `directory` the files that the input benchmark `word` reads: 1,000 JPEG files of
/// 500 x 375 in ten folders for "jpeg" (half photographs made up of shapes and noise, half images
/// of Fashion-MNIST enlarged), 60,000 examples of Fashion-MNIST in four TFRecord files for
/// "records"; nothing for "mnist".
void make_input_files(const std::string& word, const std::filesystem::path& directory);

}  // namespace brigade::benchmarks
