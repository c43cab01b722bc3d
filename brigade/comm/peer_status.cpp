#include "brigade/comm/peer_status.h"

#include <thread>
#include <vector>

#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::comm {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// How long to wait for the other members' reports: all wait for the late member at about the same
/// time.
constexpr milliseconds kMoment{100};
/// The membership needs up to its peer timeout to notice that a member is lost.
constexpr milliseconds kPatience = std::chrono::seconds(10);
constexpr milliseconds kPause{20};

}  // namespace

Error has_left_error(std::string_view what, const cluster::Member& member) {
  return Error(ErrorCode::kFailedPrecondition, what, " waits for ", member,
               ", which has already left: every process must make the same collective calls.");
}

PeerStatus::PeerStatus(std::shared_ptr<cluster::Membership> membership, std::string name)
    : membership_(std::move(membership)), name_(std::move(name)) {}

std::string PeerStatus::key(std::string_view field, int rank) const {
  return base::str_cat(name_, "/", field, "/", rank);
}

std::string PeerStatus::describe_late_members() {
  try {
    membership_->add(key("calls", membership_->self().rank), calls_ - reported_calls_);
    reported_calls_ = calls_;
    std::this_thread::sleep_for(kMoment);
    return late_members();
  } catch (const Error& error) {
    return base::str_cat("an unknown member (", error.what(), ")");
  }
}

std::string PeerStatus::late_members() {
  std::vector<std::string> late;
  for (const cluster::Member& member : membership_->members()) {
    if (member.rank != membership_->self().rank && count(key("calls", member.rank)) < calls_)
      late.push_back(base::str_cat(member));
  }
  return late.empty() ? "the network (all members have made the call)" : base::join(late, ", ");
}

void PeerStatus::leave() noexcept {
  if (has_given_up_) return;  // the others get the reason instead
  try {
    membership_->add(key("left", membership_->self().rank), 1);
    membership_->add(name_ + "/stopped", 1);
  } catch (const std::exception&) {  // the others find the store unreachable too
  }
}

void PeerStatus::give_up(const Error& reason) noexcept {
  has_given_up_ = true;
  const int rank = membership_->self().rank;
  try {
    // Whatever fails after a loss fails because of it.
    const ErrorCode code = membership_->lost() ? ErrorCode::kUnavailable : reason.code();
    membership_->set(key("reason", rank),
                     base::str_cat(static_cast<int>(code), " ", reason.what()));
    membership_->add(key("given_up", rank), 1);
    membership_->add(name_ + "/stopped", 1);
  } catch (const std::exception&) {
  }
}

std::optional<Error> PeerStatus::known_reason(std::string_view what) {
  cluster::throw_if_lost(*membership_, what);
  for (const cluster::Member& member : membership_->members()) {
    if (member.rank == membership_->self().rank) continue;
    if (count(key("given_up", member.rank)) > 0) {
      const std::string text = membership_->get(key("reason", member.rank), kPatience);
      const std::size_t space = text.find(' ');
      const auto code = base::parse_int(std::string_view(text).substr(0, space));
      const std::string reason = text.substr(std::min(space, text.size() - 1) + 1);
      // A lost member is named in the reason itself; other failures are this member's own.
      if (code == static_cast<int>(ErrorCode::kUnavailable))
        return Error(ErrorCode::kUnavailable, reason);
      return Error(ErrorCode::kAborted, member, " gave up: ", reason);
    }
    if (count(key("left", member.rank)) > 0) return has_left_error(what, member);
  }
  return std::nullopt;
}

std::optional<Error> PeerStatus::find_reason(std::string_view what) {
  return count(name_ + "/stopped") == 0 ? std::nullopt : known_reason(what);
}

Error PeerStatus::explain(std::string_view what, std::string_view text) {
  const auto until = steady_clock::now() + kPatience;
  try {
    do {
      if (auto reason = known_reason(what)) return *reason;
      std::this_thread::sleep_for(kPause);
    } while (steady_clock::now() < until);
  } catch (const Error& error) {  // a member is lost, perhaps with the store
    return error;
  }
  return Error(ErrorCode::kUnavailable, what, ": a connection broke (", text,
               "), though no member is known to be lost.");
}

StragglerReport::StragglerReport(std::chrono::milliseconds slow_after,
                                 std::chrono::milliseconds timeout)
    : start_(steady_clock::now()), slow_after_(slow_after), timeout_(timeout) {}

void StragglerReport::report(std::string_view what, std::string_view late) {
  was_reported_ = true;
  const auto time = std::chrono::duration_cast<milliseconds>(waited());
  base::log_warning(what, " has waited ", time.count(), " ms for ", late,
                    ", and is still waiting.");
}

void StragglerReport::fail(std::string_view what, std::string_view late) const {
  throw Error(ErrorCode::kDeadlineExceeded, what, " waited ", timeout_.count(), " ms for ", late,
              ", which did not make the call. Every process must make the same collective calls; "
              "raise the timeout if one really needs longer.");
}

CollectiveWatchdog::CollectiveWatchdog(const cluster::Membership& membership,
                                       PeerStatus& peer_status, const CommunicationOptions& options,
                                       std::string_view what)
    : membership_(membership),
      peer_status_(peer_status),
      what_(what),
      lost_(membership.lost_token()),
      report_(options.slow_after, options.timeout) {}

void CollectiveWatchdog::check() {
  if (lost_.is_cancelled()) cluster::throw_if_lost(membership_, what_);
  if (report_.is_over()) report_.fail(what_, peer_status_.describe_late_members());
  if (report_.is_due()) report_.report(what_, peer_status_.describe_late_members());
}

}  // namespace brigade::comm
