// Our side of the input benchmarks: for each word on standard input takes a block of batches from a
// pipeline and prints the seconds as a line of JSON; bench.py has this program and
// peers/tensorflow_input.py or peers/pytorch_input.py alternate with it. `--make WORD` writes what
// both read.
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>

#include "benchmarks/input_pipelines.h"
#include "benchmarks/measure.h"

namespace brigade::benchmarks {
namespace {

/// Batches that make a block of a second or so; the peers' programs have the same.
const std::map<std::string, int> kBlocks = {
    {"jpeg", 40}, {"records", 300}, {"records_single", 300}, {"mnist", 1500}};

/// Takes batches from an infinite iterator.
using Take = std::function<void(int batches)>;

template <class T>
Take taker(const data::Dataset<T>& dataset) {
  auto iterator = std::make_shared<data::Iterator<T>>(dataset.iterator());
  return [iterator](int batches) {
    for (int i = 0; i < batches; ++i) iterator->next().value();
  };
}

Take taker_of(const std::string& word, const std::filesystem::path& directory) {
  if (word == "jpeg") return taker(jpeg_crops(directory));
  if (word == "records" || word == "records_single") return taker(parsed_records(directory));
  if (word == "mnist") return taker(mnist_batches());
  throw std::invalid_argument("'" + word + "' is none of jpeg, records, records_single, mnist");
}

void serve(const std::filesystem::path& directory) {
  at::set_num_threads(1);
  std::map<std::string, Take> takers;
  for (std::string word; std::getline(std::cin, word);) {
    auto& take = takers[word];
    if (!take) (take = taker_of(word, directory))(kBlocks.at(word));
    const double begin = wall_seconds();
    take(kBlocks.at(word));
    std::cout << "{\"seconds\": " << wall_seconds() - begin << "}" << std::endl;
  }
}

}  // namespace
}  // namespace brigade::benchmarks

int main(int argc, char** argv) {
  std::string directory = ".";
  std::string made;
  CLI::App app(
      "Takes a block of batches for each of the words jpeg, records, records_single and mnist on "
      "standard input, and prints the seconds of each");
  app.add_option("--directory", directory, "where the files are")->check(CLI::ExistingDirectory);
  app.add_option("--make", made, "write the files that this word needs, and stop");
  CLI11_PARSE(app, argc, argv);
  return brigade::benchmarks::run_reporting("input_speed", [&] {
    if (made.empty()) {
      brigade::benchmarks::serve(directory);
    } else {
      brigade::benchmarks::make_input_files(made, directory);
    }
  });
}
