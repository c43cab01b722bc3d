#include "brigade/distribute/input_turns.h"

#include <ATen/ops/empty.h>

#include <numeric>
#include <string>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/small_values.h"
#include "brigade/io/state_json.h"

namespace brigade::distribute {

namespace {

constexpr const char* kWorkers = "workers";

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

InputTurns::InputTurns(InputPlace place, InputSource source)
    : place_(std::move(place)), source_(source) {}

void InputTurns::compare(const InputNature& own) {
  check_same_input(*place_.workers, own);
  is_compared_ = true;
}

bool InputTurns::has_own_data() const {
  return source_ == InputSource::kOwn && place_.workers != nullptr;
}

InputTurns::Agreed InputTurns::agree(std::span<const std::int64_t> own_counts) const {
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

io::StateTree InputTurns::save(const io::StateTree& position) const {
  if (!has_own_data()) return position;
  io::StateTree state;
  state[kWorkers] = io::StateTree::list();
  for (const std::string& text : comm::all_gather_texts(*place_.workers, text_of(position)))
    state[kWorkers].push_back(io::from_json(text));
  return state;
}

const io::StateTree& InputTurns::restore(const io::StateTree& state) const {
  const std::size_t saved = state.has(kWorkers) ? state.at(kWorkers).size() : 0;
  check_argument(saved == 0 || saved == static_cast<std::size_t>(place_.num_workers),
                 base::str_cat("The position in data of the workers' own was saved by ", saved,
                               " workers and is restored by ", place_.num_workers,
                               ": start as many, or begin a new epoch."));
  if (has_own_data() != (saved > 0)) {
    const auto description = [](bool is_own) {
      return is_own ? "data of its own" : "all of the data";
    };
    throw Error(
        ErrorCode::kInvalidArgument,
        base::str_cat("The position was saved where each worker reads ", description(saved > 0),
                      ", and is restored where each reads ", description(has_own_data()),
                      ": share the input out as before, or begin a new epoch."));
  }
  if (!has_own_data()) return state;
  return state.at(kWorkers, static_cast<std::size_t>(place_.worker));
}

}  // namespace brigade::distribute
