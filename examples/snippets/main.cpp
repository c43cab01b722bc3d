// Runs what the guide shows, on two replicas: example_snippets [FOLDER]
#include <filesystem>
#include <string>

#include "snippets.h"

namespace bg = brigade;

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const std::string folder = argc > 1 ? argv[1] : "snippets_run";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    bg::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
    snippets::several_inputs(strategy);
    snippets::two_optimizers(strategy);
    snippets::language_model(strategy);
    snippets::fine_tuning(strategy, folder);
    snippets::custom_loop(strategy);
    snippets::from_libtorch(strategy, folder);
    snippets::checkpoints(folder);
    snippets::tensorboard(strategy, folder);
    std::filesystem::remove_all(folder);
  });
}
