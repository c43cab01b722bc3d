#include "brigade/data/transforms/choose_from_datasets.h"

#include "brigade/base/error.h"
#include "brigade/data/core/cardinality.h"

namespace brigade::data::internal {

std::optional<std::uint64_t> ChoiceSelector::select(const std::vector<bool>&) {
  const auto choice = choices_->next();
  if (!choice) return std::nullopt;
  if (*choice >= 0 && static_cast<std::uint64_t>(*choice) < inputs_) {
    return static_cast<std::uint64_t>(*choice);
  }
  refuse("choose_from_datasets: a choice is dataset ", *choice, "; they must be 0 to ",
         inputs_ - 1);
}

SelectionSpec spec_of_choose(std::size_t inputs, NodePtr<std::int64_t> choices,
                             WhenEmpty when_empty) {
  constexpr const char* kChoose = "choose_from_datasets";
  check_has_datasets(inputs, kChoose);
  const NodePtr<std::int64_t> in_order = input_in_order(std::move(choices));
  InputLabels labels(inputs);
  labels.emplace_back("choices ");
  return {.name = kChoose,
          .when_empty = when_empty,
          .make_selector =
              [in_order, inputs](IteratorOptions job, std::uint64_t) {
                job.shard = Shard();  // the choices are the same in every shard
                return std::make_unique<ChoiceSelector>(
                    in_order->iterator(options_of_input(job, inputs)), inputs);
              },
          .cardinality =
              [in_order](const std::vector<std::int64_t>& cardinalities) {
                const bool never_ends =
                    all_endless(cardinalities) && in_order->cardinality() == kInfinite;
                return never_ends ? kInfinite : kUnknown;
              },
          .labels = std::move(labels),
          .counts_elements = true,  // each shard consumes all choices
          .choices = in_order};
}

}  // namespace brigade::data::internal
