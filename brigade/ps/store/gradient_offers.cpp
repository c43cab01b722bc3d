#include "brigade/ps/store/gradient_offers.h"

#include <utility>

#include "brigade/base/error.h"

namespace brigade::ps {

void GradientOffers::put(Offer offer) {
  const std::pair key(offer.step, offer.from);
  offers_.insert_or_assign(key, std::move(offer));
}

std::map<std::string, std::vector<VariableGradient>> GradientOffers::gradients_of(
    const coordination::StepDecision& decision) const {
  std::map<std::string, std::vector<VariableGradient>> gradients;
  for (const coordination::Contribution& each : decision.contributions) {
    const auto found = offers_.find({decision.step, each});
    check_state(found != offers_.end(), "Step ", decision.step, " was decided with gradient ",
                each.index, " of worker ", each.worker, ", which this server does not have.");
    for (const auto& [name, gradient] : *found->second.gradients)
      gradients[name].push_back({.values = gradient});
    if (!found->second.rows) continue;
    for (const auto& [name, indices, values] : *found->second.rows)
      gradients[name].push_back({.values = values, .indices = indices});
  }
  return gradients;
}

bool GradientOffers::has(std::int64_t step, const coordination::Contribution& from) const {
  return offers_.contains({step, from});
}

void GradientOffers::drop_before(std::int64_t step) {
  offers_.erase(offers_.begin(), offers_.lower_bound({step, {}}));
}

std::uint64_t GradientOffers::bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [key, offer] : offers_) {
    for (const auto& [name, gradient] : *offer.gradients) bytes += gradient.nbytes();
    if (!offer.rows) continue;
    for (const RowGradient& each : *offer.rows)
      bytes += each.indices.nbytes() + each.values.nbytes();
  }
  return bytes;
}

std::vector<GradientOffers::Offer> GradientOffers::offers() const {
  std::vector<Offer> offers;
  for (const auto& [key, offer] : offers_) offers.push_back(offer);
  return offers;
}

}  // namespace brigade::ps
