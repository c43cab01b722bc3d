#include "brigade/coordination/server_pair.h"

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"

namespace brigade::coordination {
namespace {

// How long one that was started waits for the other one, which may have more than it has.
constexpr int kTermsOfLooking = 3;
constexpr int kTermsForFollower = 2;
// Of a term, after which a silent follower is asked: it calls twice as often.
constexpr int kPartOfTermToDoubt = 2;

}  // namespace

ServerPair::ServerPair(Options options, std::optional<std::int64_t> epoch, Time now)
    : options_(std::move(options)),
      epoch_(epoch.value_or(0)),
      is_restored_(epoch_ > 0),
      may_begin_(options_.is_first && !epoch),
      last_contact_(now) {
  check_argument(options_.term.count() > 0, "A pair of servers has a term of ",
                 options_.term.count(), " ms: it must be positive.");
}

void ServerPair::look(Time now) {
  role_ = PairRole::kLooking;
  is_paired_ = false;
  last_contact_ = now;
}

void ServerPair::become_candidate() {
  role_ = PairRole::kCandidate;
  ++candidacy_;
  is_paired_ = false;
}

/// Neither acts. Whether the other one is to be the candidate.
bool ServerPair::has_priority_over(const PairStatus& other) const {
  if (other.epoch != epoch_) return other.epoch > epoch_;
  if (other.role == PairRole::kLooking) return !options_.is_first;
  return other.role == PairRole::kCandidate || other.epoch > 0;  // a follower has it in memory
}

void ServerPair::receive(const PairStatus& other, Time now) {
  const bool other_acts = other.role == PairRole::kActing;
  if (other_acts) latest_ = std::max(latest_, other.epoch);
  switch (role_) {
    case PairRole::kActing:
      if (other.epoch > epoch_) look(now);
      return;
    case PairRole::kFollowing:
      if (other_acts && other.epoch >= epoch_) {
        followed_ = other.life;
        last_contact_ = now;
      } else if (other.life != followed_ || other_acts) {  // the one that it followed is gone
        if (epoch_ > 0 && may_act() && other.epoch <= epoch_)
          become_candidate();
        else
          look(now);
      }
      return;
    case PairRole::kLooking:
    case PairRole::kCandidate:
      if (other_acts && other.epoch >= epoch_) {
        role_ = PairRole::kFollowing;
        followed_ = other.life;
        last_contact_ = now;
      } else if (role_ == PairRole::kCandidate) {
        if (other.epoch > epoch_) look(now);
      } else if (has_priority_over(other)) {
        last_contact_ = now;
      } else if (may_act()) {
        become_candidate();
      }
      return;
  }
}

void ServerPair::tick(Time now) {
  const auto due = next_tick();
  if (!due || now < *due) return;
  if (role_ == PairRole::kFollowing && (epoch_ == 0 || !may_act())) return look(now);
  become_candidate();
}

std::optional<ServerPair::Time> ServerPair::next_tick() const {
  switch (role_) {
    case PairRole::kLooking:
      if (!may_act()) return std::nullopt;
      return last_contact_ + kTermsOfLooking * options_.term;
    case PairRole::kFollowing:
      return last_contact_ + options_.term;
    case PairRole::kActing:
      if (!is_paired_) return std::nullopt;
      return last_contact_ + kTermsForFollower * options_.term;
    case PairRole::kCandidate:
      return std::nullopt;
  }
  return std::nullopt;
}

bool ServerPair::vote(std::int64_t epoch) {
  if (role_ != PairRole::kCandidate || epoch <= epoch_) return false;
  role_ = PairRole::kActing;
  epoch_ = epoch;
  is_restored_ = false;
  may_begin_ = false;
  is_paired_ = false;
  return true;
}

void ServerPair::begin_to_fill() {
  check_state(role_ == PairRole::kFollowing, "Only a follower is filled by the other one.");
  epoch_ = 0;
  is_restored_ = false;
  may_begin_ = false;
}

void ServerPair::complete(std::int64_t epoch) {
  check_state(role_ == PairRole::kFollowing, "Only a follower becomes complete.");
  epoch_ = epoch;
  is_restored_ = false;
}

bool ServerPair::doubts_follower(Time now) const {
  return role_ == PairRole::kActing && is_paired_ &&
         now >= last_contact_ + options_.term / kPartOfTermToDoubt;
}

void ServerPair::set_paired(bool is_paired, Time now) {
  check_state(role_ == PairRole::kActing, "Only the one that acts has a follower.");
  is_paired_ = is_paired;
  last_contact_ = now;
}

}  // namespace brigade::coordination
