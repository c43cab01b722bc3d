#include "brigade/data/sources/counter.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "brigade/base/random.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/forwarding_iterator.h"
#include "brigade/data/core/indexed_source.h"

namespace brigade::data {
namespace {

/// Nobody gets to its end.
std::shared_ptr<const internal::IndexedNode<std::int64_t>> make_endless(
    std::function<std::int64_t(std::int64_t)> element, std::string name) {
  return std::make_shared<const internal::IndexedNode<std::int64_t>>(
      std::numeric_limits<std::int64_t>::max(), kInfinite, std::move(element), std::move(name));
}

std::string name_of_random(const RandomOptions& options) {
  std::string name = "random(";
  if (options.seed) name += base::str_cat("seed ", *options.seed);
  if (!options.rerandomize_each_iteration) {
    name += options.seed ? ", in each epoch alike" : "in each epoch alike";
  }
  return name + ")";
}

std::int64_t random_at(std::uint64_t key, std::int64_t index) {
  base::CounterRng rng(key, static_cast<std::uint64_t>(index));
  return static_cast<std::int64_t>(rng() >> 32);
}

using Numbers = std::shared_ptr<const internal::IndexedNode<std::int64_t>>;

/// The source of `random`: its numbers depend on the epoch.
class RandomIterator final : public internal::ForwardingIterator<std::int64_t> {
 public:
  explicit RandomIterator(Numbers numbers)
      : ForwardingIterator(numbers->iterator({})), numbers_(std::move(numbers)) {}
  std::optional<std::int64_t> next() override { return base_->next(); }

 private:
  Numbers numbers_;  // which the iterator reads
};

}  // namespace

Dataset<std::int64_t> counter(std::int64_t start, std::int64_t step) {
  const auto at = [start, step](std::int64_t index) {
    return internal::number_at(start, step, index);
  };
  return Dataset<std::int64_t>(make_endless(at, base::str_cat("counter(", start, ", ", step, ")")));
}

Dataset<std::int64_t> random(RandomOptions options) {
  const std::string name = name_of_random(options);
  return Dataset<std::int64_t>(internal::make_source<std::int64_t>(
      {.name = name, .cardinality = kInfinite}, [options, name](const IteratorOptions& job) {
        const std::uint64_t epoch = options.rerandomize_each_iteration ? job.epoch : 0;
        const std::uint64_t seed = options.seed.value_or(job.seed);
        const std::uint64_t key = base::derive_seed(seed, "random", 0, epoch);
        return std::make_unique<RandomIterator>(
            make_endless([key](std::int64_t index) { return random_at(key, index); }, name));
      }));
}

}  // namespace brigade::data
