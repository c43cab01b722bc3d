#include "brigade/data/sources/counter.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "brigade/base/random.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/cardinality.h"
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

/// The source of `random`: its numbers depend on the epoch.
class RandomIterator final : public IteratorBase<std::int64_t> {
 public:
  RandomIterator(std::uint64_t key, const std::string& name)
      : numbers_(make_endless([key](std::int64_t index) { return random_at(key, index); }, name)),
        iterator_(numbers_->iterator({})) {}
  std::optional<std::int64_t> next() override { return iterator_->next(); }
  std::uint64_t skip(std::uint64_t count) override { return iterator_->skip(count); }
  io::StateTree save() const override { return iterator_->save(); }
  void restore(const io::StateTree& state) override { iterator_->restore(state); }

 private:
  std::shared_ptr<const internal::IndexedNode<std::int64_t>> numbers_;
  std::unique_ptr<IteratorBase<std::int64_t>> iterator_;
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
        return std::make_unique<RandomIterator>(base::derive_seed(seed, "random", 0, epoch), name);
      }));
}

}  // namespace brigade::data
