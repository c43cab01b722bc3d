#include "brigade/data/transforms/shuffle.h"

#include <algorithm>
#include <numeric>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {

std::string name_of_shuffle(const ShuffleOptions& options) {
  check_argument(options.buffer_size >= 1, "shuffle: buffer_size is ", options.buffer_size,
                 "; it must be 1 or more (the dataset's size for a full shuffle)");
  std::string name = base::str_cat("shuffle(", options.buffer_size);
  if (options.seed) name += base::str_cat(", seed ", *options.seed);
  if (!options.reshuffle_each_iteration) name += ", in each epoch alike";
  return name + ")";
}

ReplayedBuffer replay_shuffle(std::uint64_t key, std::uint64_t buffer_size,
                              ShuffleProgress progress,
                              const std::optional<concurrency::CancelToken>& cancel) {
  constexpr std::uint64_t kDrawsPerLook = std::uint64_t{1} << 16;
  ReplayedBuffer replayed{{}, base::CounterRng(key)};
  auto& indices = replayed.indices;
  std::uint64_t filled = 0;
  const auto fill = [&] {
    while (indices.size() < buffer_size && filled < progress.filled) indices.push_back(filled++);
  };
  for (std::uint64_t drawn = 0; drawn < progress.drawn; ++drawn) {
    if (drawn % kDrawsPerLook == 0) throw_if_cancelled(cancel);
    fill();
    const auto slot = static_cast<std::size_t>(replayed.rng.uniform_below(indices.size()));
    indices[slot] = indices.back();
    indices.pop_back();
  }
  fill();
  return replayed;
}

io::StateTree save_shuffle(std::uint64_t key, std::uint64_t buffer_size, ShuffleProgress progress) {
  return make_position("shuffle", {{"key", key},
                                   {"buffer_size", buffer_size},
                                   {"filled", progress.filled},
                                   {"drawn", progress.drawn}});
}

ShuffleProgress load_shuffle(const io::StateTree& state, std::uint64_t key,
                             std::uint64_t buffer_size) {
  check_position(state, "shuffle");
  const std::uint64_t saved_size = position_number(state, "buffer_size");
  check_argument(saved_size == buffer_size, "The position was saved in shuffle(", saved_size,
                 "), not in shuffle(", buffer_size,
                 "): keep the buffer size to resume in the same order");
  check_argument(position_number(state, "key") == key,
                 "The position was saved in a shuffle with another seed or another position in the "
                 "chain of transforms: restore it into the dataset that it was saved from");
  const ShuffleProgress progress{position_number(state, "filled"), position_number(state, "drawn")};
  // The first test keeps the replay from drawing out of an empty buffer.
  check_argument(
      progress.drawn <= progress.filled && progress.filled - progress.drawn <= buffer_size,
      "A saved shuffle position is broken: ", progress.drawn, " elements drawn of ",
      progress.filled, " with a buffer of ", buffer_size);
  return progress;
}

std::vector<std::size_t> slots_by_index(const std::vector<std::uint64_t>& indices) {
  std::vector<std::size_t> slots(indices.size());
  std::iota(slots.begin(), slots.end(), std::size_t{0});
  std::ranges::sort(slots, {}, [&](std::size_t slot) { return indices[slot]; });
  return slots;
}

void throw_input_too_short(std::uint64_t filled) {
  throw_data_too_short(base::str_cat("The saved shuffle had read ", filled,
                                     " elements, but its input now has fewer"));
}

}  // namespace brigade::data::internal
