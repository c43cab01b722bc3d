// Runs a target, without a fuzzing engine, on every file of a corpus: complete, truncated at
// several offsets, and with bytes changed. `replay FOLDER`; exits with 1 if the folder has no file.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/target.h"

namespace {

constexpr int kCuts = 64;
constexpr int kChanges = 400;

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void give(const std::string& bytes) {
  // A copy that ends with the bytes: a read beyond them is one beyond an allocation.
  const std::vector<std::uint8_t> exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

void run_changed(const std::string& bytes, std::mt19937& random) {
  std::string changed = bytes;
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  const std::size_t count = 1 + below(4);
  for (std::size_t i = 0; i < count; ++i) {
    char& byte = changed[below(changed.size())];
    constexpr unsigned char kExtremes[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    byte = static_cast<char>(below(2) == 0 ? kExtremes[below(5)] : below(256));
  }
  give(changed);
}

void replay(const std::string& bytes) {
  give(bytes);
  if (bytes.empty()) return;
  for (int cut = 0; cut < kCuts; ++cut) give(bytes.substr(0, bytes.size() * cut / kCuts));
  std::mt19937 random(static_cast<unsigned>(bytes.size()));
  for (int change = 0; change < kChanges; ++change) run_changed(bytes, random);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]), 2;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    replay(content_of(entry.path()));
    ++files;
  }
  std::printf("%d files, each with %d cuts and %d changes\n", files, kCuts, kChanges);
  return files > 0 ? 0 : 1;
}
