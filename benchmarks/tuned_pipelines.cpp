#include "benchmarks/tuned_pipelines.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "brigade/base/strings.h"
#include "brigade/data/sources/counter.h"

namespace brigade::benchmarks {
namespace {

using Numbers = data::Dataset<std::uint64_t>;
using Batch = TunedPipeline::Batch;

constexpr std::int64_t kBatch = 32;

/// Work that no compiler shortens: about a nanosecond a round.
std::uint64_t worked(std::uint64_t value, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    value ^= value << 13;
    value ^= value >> 7;
    value ^= value << 17;
  }
  return value;
}

Numbers numbers() {
  return data::counter(1).map([](std::int64_t n) { return static_cast<std::uint64_t>(n); });
}

data::Dataset<Batch> batched(const Numbers& numbers, const InputSettings& settings) {
  return numbers.batch(kBatch).prefetch(settings.prefetch);
}

data::Dataset<Batch> working(int rounds, const InputSettings& settings) {
  const auto work = [rounds](std::uint64_t n) { return worked(n, rounds); };
  return batched(numbers().map(work, {.parallelism = settings.map_threads}), settings);
}

data::Dataset<Batch> heavy(const InputSettings& settings) {
  return working(200'000, settings);
}

data::Dataset<Batch> cheap(const InputSettings& settings) {
  return working(200, settings);
}

data::Dataset<Batch> uneven(const InputSettings& settings) {
  const auto work = [](std::uint64_t n) { return worked(n, n % 16 == 0 ? 1'600'000 : 16'000); };
  return batched(numbers().map(work, {.parallelism = settings.map_threads}), settings);
}

data::Dataset<Batch> two_maps(const InputSettings& settings) {
  const auto read = [](std::uint64_t n) { return worked(n, 40'000); };
  const auto decode = [](std::uint64_t n) { return worked(n, 160'000); };
  return batched(numbers()
                     .map(read, {.parallelism = settings.map_threads, .name = "read"})
                     .map(decode, {.parallelism = settings.second_map_threads, .name = "decode"}),
                 settings);
}

/// Remote files: opening one takes a millisecond, without computation.
data::Dataset<Batch> reads(const InputSettings& settings) {
  const auto read = [](std::uint64_t n) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return worked(n, 20'000);
  };
  return batched(numbers().map(read, {.parallelism = settings.map_threads}), settings);
}

/// Numbers around that of the cores.
std::vector<InputSettings> around_cores(std::int64_t most_threads) {
  std::vector<InputSettings> settings;
  for (std::int64_t threads = 1; threads <= most_threads; threads *= 2) {
    for (const std::int64_t prefetch : {1, 4}) settings.push_back({threads, threads, prefetch});
  }
  return settings;
}

std::vector<InputSettings> each_for_two() {
  const auto cores = static_cast<std::int64_t>(data::usable_cores());
  std::vector<InputSettings> settings;
  for (std::int64_t first = 1; first <= cores; first *= 2) {
    for (std::int64_t second = 1; second <= 2 * cores; second *= 2) {
      settings.push_back({first, second, 2});
    }
  }
  return settings;
}

std::string number_text(std::int64_t number) {
  return number == data::kAutotune ? "auto" : base::str_cat(number);
}

}  // namespace

std::vector<TunedPipeline> tuned_pipelines() {
  const auto cores = static_cast<std::int64_t>(data::usable_cores());
  const auto few = around_cores(2 * cores);
  return {{"heavy", "a map of 0.2 ms an element", heavy, 4, few},
          {"cheap", "a map of 0.2 us an element", cheap, 1000, few},
          {"uneven", "a map of 16 us, of every 16th element 1.6 ms", uneven, 4, few},
          {"two_maps", "a map of 40 us and one of 160 us", two_maps, 4, each_for_two()},
          {"reads", "a map that waits 1 ms", reads, 4, around_cores(16 * cores)}};
}

std::string to_string(const InputSettings& settings) {
  return base::str_cat("map threads ", number_text(settings.map_threads), " and ",
                       number_text(settings.second_map_threads), ", prefetch ",
                       number_text(settings.prefetch));
}

}  // namespace brigade::benchmarks
