// Saves and loads the MNIST CNN with Adam's slots, once for each word on standard input (`save`,
// `load`, `restore`), and prints the seconds of each as a line of JSON: bench.py has this program
// and peers/pytorch_checkpoint.py alternate.
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

#include "benchmarks/measure.h"
#include "benchmarks/session_loop.h"
#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/saver.h"

namespace brigade::benchmarks {
namespace {

class Speed {
 public:
  explicit Speed(const std::filesystem::path& parent)
      : folder_(parent), loop_(Workload::kMnistCnn, 1, 8), saver_(files_, options()) {
    loop_.run(1);  // the slots hold something
    seconds_of("save");
  }

  double seconds_of(const std::string& word) {
    const double begin = wall_seconds();
    if (word == "save") {
      saver_.save(++step_, loop_.state().contents());
    } else if (word == "load") {
      load();
    } else if (word == "restore") {
      loop_.state().restore(open());
    } else {
      throw std::invalid_argument("'" + word + "' is none of save, load, restore");
    }
    return wall_seconds() - begin;
  }

 private:
  checkpoint::SaverOptions options() const {
    return {.directory = folder_.path(), .writing = checkpoint::Writing::kForeground};
  }
  checkpoint::Checkpoint open() const {
    return checkpoint::Checkpoint::open(
        files_, checkpoint::latest_checkpoint(*files_, folder_.path()).value());
  }
  void load() const {
    const auto checkpoint = open();
    for (const auto section : checkpoint::kSections) checkpoint.tensors(section);
    checkpoint.state();
  }

  ScratchFolder folder_;
  std::shared_ptr<io::FileSystem> files_ = io::posix_file_system();
  LossLoop loop_;
  checkpoint::Saver saver_;
  std::int64_t step_ = 0;
};

void serve(const std::string& directory) {
  at::set_num_threads(1);
  Speed speed(directory);
  for (std::string word; std::getline(std::cin, word);) {
    const double seconds = speed.seconds_of(word);
    std::cout << "{\"seconds\": " << seconds << "}" << std::endl;
  }
}

}  // namespace
}  // namespace brigade::benchmarks

int main(int argc, char** argv) {
  std::string directory = ".";
  CLI::App app(
      "Saves and loads the MNIST CNN with Adam's slots, once for each of the words save, load and "
      "restore on standard input, and prints the seconds of each");
  app.add_option("--directory", directory, "where a folder for checkpoints is made")
      ->check(CLI::ExistingDirectory);
  CLI11_PARSE(app, argc, argv);
  return brigade::benchmarks::run_reporting("checkpoint_speed",
                                            [&] { brigade::benchmarks::serve(directory); });
}
