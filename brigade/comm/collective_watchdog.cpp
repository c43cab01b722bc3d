#include "brigade/comm/collective_watchdog.h"

#include "brigade/base/error.h"
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

void StragglerReport::fail(std::string_view what, std::string_view late) const {
  throw Error(
      ErrorCode::kDeadlineExceeded,
      base::str_cat(what, " waited ", timeout_.count(), " ms for ", late,
                    ", which did not make the call. Every process must make the same collective "
                    "calls; raise the timeout if one really needs longer."));
}

CollectiveWatchdog::CollectiveWatchdog(const cluster::Membership& membership,
                                       PeerStatus& peer_status, const CommunicationOptions& options,
                                       std::string_view what)
    : membership_(membership),
      peer_status_(peer_status),
      options_(options),
      what_(what),
      lost_(membership.lost_token()),
      report_(options.slow_after, options.timeout) {}

void CollectiveWatchdog::check() {
  if (lost_.is_cancelled()) cluster::throw_if_lost(membership_, what_);
  if (report_.is_over()) report_.fail(what_, peer_status_.describe_late_members());
  if (report_.is_due()) report_.report(what_, peer_status_.describe_late_members());
}

}  // namespace brigade::comm
