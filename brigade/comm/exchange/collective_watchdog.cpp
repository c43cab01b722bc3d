#include "brigade/comm/exchange/collective_watchdog.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::comm {

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
  if (report_.is_over()) {
    throw Error(
        ErrorCode::kDeadlineExceeded,
        base::str_cat(
            what_, " waited ", options_.timeout.count(), " ms for ",
            peer_status_.describe_late_members(),
            ", which did not make the call. Every process must make the same collective calls; "
            "raise the timeout if one really needs longer."));
  }
  if (report_.is_due()) report_.report(what_, peer_status_.describe_late_members());
}

}  // namespace brigade::comm
