#include "brigade/data/core/transform.h"

#include "brigade/base/random.h"

namespace brigade::data::internal {

void PositionField::set(std::uint64_t value) const {
  if (number_ != nullptr) {
    *number_ = value;
  } else {
    *flag_ = value != 0;
  }
}

io::StateTree PositionFields::save(io::StateTree input) const {
  io::StateTree state = make_position(transform_, {}, std::move(input));
  for (const PositionField& field : fields_) state[field.name()] = field.value();
  return state;
}

void PositionFields::restore(const io::StateTree& state,
                             const std::function<void(const io::StateTree&)>& restore_input) const {
  check_position(state, transform_);
  std::vector<std::uint64_t> values;
  for (const PositionField& field : fields_) values.push_back(position_number(state, field.name()));
  restore_input(position_input(state));
  for (std::size_t i = 0; i < fields_.size(); ++i) fields_[i].set(values[i]);
}

std::uint64_t key_of_stream(std::string_view stream, std::optional<std::uint64_t> seed,
                            const IteratorOptions& job, std::uint64_t depth, std::uint64_t epoch) {
  const std::uint64_t key = seed ? base::derive_seed(*seed, stream, 0, epoch)
                                 : base::derive_seed(job.seed, stream, depth, epoch);
  return key_in_shard(key, job.shard);
}

}  // namespace brigade::data::internal
