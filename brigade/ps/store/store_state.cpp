#include "brigade/ps/store/store_state.h"

#include <utility>

namespace brigade::ps {

void StoreState::admit(int worker, std::int64_t incarnation) {
  ledger.admit(worker, incarnation);
  if (incarnation == ledger.incarnation(worker)) finished.erase(worker);
}

void StoreState::finish(int worker, std::int64_t incarnation) {
  if (incarnation == ledger.incarnation(worker)) finished[worker] = incarnation;
}

void StoreState::count_push(const coordination::PushId& id) {
  ledger.record(id);
  ++step;
}

void StoreState::keep_offer(const coordination::PushId& id, GradientOffers::Offer offer) {
  ledger.record(id);
  if (offer.step >= step) offers.put(std::move(offer));
}

void StoreState::finish_step(const coordination::StepDecision& decision) {
  step = decision.step + 1;
  last_decision = decision;
  offers.drop_before(step);
}

void StoreState::begin_at(std::int64_t first) {
  step = first;
  last_decision.reset();
  offers.drop_before(step);
}

}  // namespace brigade::ps
