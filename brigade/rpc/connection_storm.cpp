#include "brigade/rpc/connection_storm.h"

#include "brigade/base/strings.h"

namespace brigade::rpc {

void ConnectionStormDetector::record(TimePoint now, const std::string& peer) {
  if (now - second_begun_ >= std::chrono::seconds(1)) {
    second_begun_ = now;
    in_second_ = 0;
  }
  ++in_second_;
  if (storm_begun_) ++in_storm_;
  last_peer_ = peer;
  if (in_second_ < kStorm) return;
  storm_seen_ = now;
  if (storm_begun_) return;
  storm_begun_ = now;
  in_storm_ = in_second_;
}

std::optional<std::string> ConnectionStormDetector::report(TimePoint now) {
  if (!storm_begun_) return std::nullopt;
  if (!is_reported_) {
    is_reported_ = true;
    return base::str_cat(
        "A storm of connections at ", address_, ": more than ", kStorm,
        " in a second came from programs that are not members of this job (the last "
        "from ",
        last_peer_,
        "). They are closed. Members that have joined are not affected; a start may be slow.");
  }
  if (now - storm_seen_ < kCalm) return std::nullopt;
  const auto took = std::chrono::duration_cast<std::chrono::seconds>(storm_seen_ - *storm_begun_);
  std::string text =
      base::str_cat("The storm of connections at ", address_, " is over: ", in_storm_,
                    " were closed in ", took.count() + 1, " s.");
  storm_begun_.reset();
  is_reported_ = false;
  return text;
}

}  // namespace brigade::rpc
