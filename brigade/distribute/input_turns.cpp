#include "brigade/distribute/input_turns.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <numeric>
#include <string>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/io/state_json.h"

namespace brigade::distribute {

namespace {

constexpr const char* kWorkers = "workers";
constexpr const char* kPosition = "position";
constexpr const char* kTurn = "turn";

at::Tensor as_tensor(const std::string& text) {
  const at::Tensor bytes = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  return bytes;
}

/// A position as one text. Positions of what cannot seek hold bytes, and those stay in their
/// process.
std::string text_of(const io::StateTree& position) {
  const io::StateJson text = io::to_json(position);
  if (text.arrays.empty()) return text.json;
  throw Error(
      ErrorCode::kUnimplemented,
      "This worker's position in its own data holds elements, which a checkpoint of several "
      "workers cannot keep yet: use a source that can seek.");
}

}  // namespace

InputTurns::InputTurns(InputPlace place, InputOptions options, InputSource source)
    : place_(std::move(place)),
      source_(source),
      per_batch_(options.auto_shard == AutoShardPolicy::kOff ? place_.num_workers : 1) {}

bool InputTurns::has_own_data() const {
  return source_ == InputSource::kOwn && place_.workers != nullptr;
}

InputTurns::Agreed InputTurns::agree(std::span<const std::int64_t> own_counts) {
  const std::int64_t examples =
      std::accumulate(own_counts.begin(), own_counts.end(), std::int64_t{0});
  if (!has_own_data()) return {.somebody_has_data = !own_counts.empty(), .examples = examples};
  const at::Tensor both = at::empty({2}, at::kLong);
  auto* values = both.mutable_data_ptr<std::int64_t>();
  values[0] = own_counts.empty() ? 0 : 1;
  values[1] = examples;
  place_.workers->all_reduce({&both, 1}, comm::ReduceOp::kSum)->wait();
  return {.somebody_has_data = values[0] > 0, .examples = values[1]};
}

io::StateTree InputTurns::save(const io::StateTree& position, std::int64_t turn) const {
  if (!has_own_data() && turn == 0) return position;
  io::StateTree state;
  if (!has_own_data()) {
    state[kPosition] = position;
    state[kTurn] = turn;
    return state;
  }
  state[kWorkers] = io::StateTree::list();
  for (const at::Tensor& bytes : place_.workers->all_gather(as_tensor(text_of(position)))) {
    const std::string text(static_cast<const char*>(bytes.const_data_ptr()),
                           static_cast<std::size_t>(bytes.numel()));
    state[kWorkers].push_back(io::from_json(text));
  }
  return state;
}

std::pair<io::StateTree, std::int64_t> InputTurns::restore(const io::StateTree& state) const {
  if (state.has(kTurn)) return {state.at(kPosition), state.as_int64(kTurn)};
  const auto workers = static_cast<std::size_t>(place_.num_workers);
  const std::size_t saved = state.has(kWorkers) ? state.at(kWorkers).size() : 1;
  const bool is_fitting = !has_own_data() && !state.has(kWorkers);
  check_argument(is_fitting || saved == workers,
                 base::str_cat("The position in data of the workers' own was saved by ", saved,
                               " workers and is restored by ", workers,
                               ": start as many, or begin a new epoch."));
  if (!state.has(kWorkers)) return {state, 0};
  return {state.at(kWorkers).at(static_cast<std::size_t>(place_.worker)), 0};
}

}  // namespace brigade::distribute
