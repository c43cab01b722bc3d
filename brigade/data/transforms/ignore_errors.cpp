#include "brigade/data/transforms/ignore_errors.h"

#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {
namespace {

std::string text_of_current() {
  try {
    throw;
  } catch (const std::exception& error) {
    return std::string(base::without_stack_trace(error.what()));
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

}  // namespace

void IgnoredErrors::add_current() {
  const std::string text = text_of_current();
  if (++left_out_ == 1) first_ = text;
  if (options_.count) options_.count->add_one();
  if (options_.log == ErrorLog::kEach) {
    base::log_warning(where_, ": an element of epoch ", epoch_, " was skipped: ", text);
  }
}

void IgnoredErrors::end() {
  if (has_ended_) return;
  has_ended_ = true;
  if (left_out_ == 0 || options_.log == ErrorLog::kOff) return;
  base::log_warning(where_, ": ", left_out_, left_out_ == 1 ? " element" : " elements",
                    " of epoch ", epoch_,
                    left_out_ == 1 ? " was skipped: " : " were skipped, the first: ", first_);
}

io::StateTree IgnoredErrors::save(io::StateTree input) const {
  io::StateTree state =
      make_position("ignore_errors", {{"left_out", left_out_}, {"has_ended", has_ended_ ? 1U : 0U}},
                    std::move(input));
  state["first"] = first_;
  return state;
}

void IgnoredErrors::restore(const io::StateTree& state) {
  check_position(state, "ignore_errors");
  const std::uint64_t left_out = position_number(state, "left_out");
  const bool has_ended = position_number(state, "has_ended") != 0;
  first_ = state.as_string("first");
  left_out_ = left_out;
  has_ended_ = has_ended;
}

}  // namespace brigade::data::internal
