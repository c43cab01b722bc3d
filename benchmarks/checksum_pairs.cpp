// The time of CRC-32C, the checksum of checkpoints, over that of SHA-256, alternating within one
// process. Prints one JSON line.
#include <CLI/CLI.hpp>
#include <iostream>
#include <span>
#include <vector>

#include "benchmarks/measure.h"
#include "benchmarks/pairs.h"
#include "brigade/io/crc32c.h"
#include "brigade/io/sha256.h"

namespace brigade::benchmarks {
namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10;  // as checkpoints are written

/// Sums so many pieces, as if they came one after the other.
struct Crc {
  void run(int pieces) {
    for (int i = 0; i < pieces; ++i) sum = io::extend_crc32c(sum, bytes);
  }
  std::span<const std::byte> bytes;
  std::uint32_t sum = 0;
};
struct Sha {
  void run(int pieces) {
    for (int i = 0; i < pieces; ++i) sum.update(bytes);
  }
  std::span<const std::byte> bytes;
  io::Sha256 sum;
};

void measure(const PairOptions& options) {
  const std::vector<std::byte> bytes(kPiece, std::byte{1});
  Crc crc{.bytes = bytes};
  Sha sha{.bytes = bytes, .sum = {}};
  Ratios ratios;
  compare_built(crc, sha, options, ratios);
  const double rate = static_cast<double>(kPiece) * options.steps / 1e9;
  std::cout << "{\"pairs\": " << options.pairs << ratio_fields(ratios)
            << ", \"crc32c_gigabytes_per_second\": "
            << rate / cost_of_block(crc, options.steps).wall_seconds
            << ", \"sha256_gigabytes_per_second\": "
            << rate / cost_of_block(sha, options.steps).wall_seconds << "}" << std::endl;
}

}  // namespace
}  // namespace brigade::benchmarks

int main(int argc, char** argv) {
  brigade::benchmarks::PairOptions options{.pairs = 30, .steps = 100};
  CLI::App app("The time of CRC-32C over that of SHA-256, on 256 KiB in the processor's cache");
  app.add_option("--pairs", options.pairs)->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps, "pieces a block")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  brigade::benchmarks::measure(options);
}
