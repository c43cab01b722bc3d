#include "brigade/comm/exchange/straggler_report.h"

#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::comm {

using std::chrono::steady_clock;

StragglerReport::StragglerReport(std::chrono::milliseconds slow_after,
                                 std::chrono::milliseconds timeout)
    : start_(steady_clock::now()), slow_after_(slow_after), timeout_(timeout) {}

bool StragglerReport::is_over() const {
  return steady_clock::now() - start_ >= timeout_;
}

bool StragglerReport::is_due() const {
  return !was_reported_ && steady_clock::now() - start_ >= slow_after_;
}

void StragglerReport::report(std::string_view what, std::string_view late) {
  was_reported_ = true;
  const auto waited =
      std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - start_);
  base::log_warning(base::str_cat(what, " has waited ", waited.count(), " ms for ", late,
                                  ", and is still waiting."));
}

}  // namespace brigade::comm
