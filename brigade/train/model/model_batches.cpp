#include "brigade/train/model/model_batches.h"

#include <vector>

namespace brigade::train::internal {
namespace {

template <class B>
ModelBatchIterator::Batch converted(const distribute::PerReplica<B>& batches, bool checks) {
  std::vector<ModelBatch> values;
  values.reserve(batches.size());
  const auto convert = [checks](const B& each) {
    return checks ? checked(to_model_batch(each)) : to_model_batch(each);
  };
  for (const B& each : batches.values()) values.push_back(convert(each));
  ModelBatchIterator::Batch::OfAny of_any;
  if (batches.of_any()) {
    of_any = [convert, part = batches.of_any()](int replica) { return convert(part(replica)); };
  }
  return ModelBatchIterator::Batch(std::move(values), batches.examples(), std::move(of_any));
}

}  // namespace

std::optional<ModelBatchIterator::Batch> ModelBatchIterator::next() {
  return std::visit(
      [this](auto& iterator) -> std::optional<Batch> {
        const auto batches = iterator.next();
        if (!batches) return std::nullopt;
        return converted(*batches, checks_);
      },
      iterator_);
}

void ModelBatchIterator::start_next_epoch() {
  std::visit([](auto& iterator) { iterator.start_next_epoch(); }, iterator_);
}

io::StateTree ModelBatchIterator::own_position() const {
  return std::visit([](const auto& iterator) { return iterator.own_position(); }, iterator_);
}

io::StateTree ModelBatchIterator::save_at(const io::StateTree& own_position) const {
  return std::visit([&](const auto& iterator) { return iterator.save_at(own_position); },
                    iterator_);
}

void ModelBatchIterator::restore(const io::StateTree& state) {
  std::visit([&state](auto& iterator) { iterator.restore(state); }, iterator_);
}

std::int64_t DistributedBatches::cardinality() const {
  return std::visit([](const auto& data) { return data.cardinality(); }, data_);
}

ModelBatchIterator DistributedBatches::iterator() const {
  if (const auto* simple = std::get_if<0>(&data_)) return ModelBatchIterator(simple->iterator());
  return {std::get<1>(data_).iterator(), checks_};
}

std::int64_t GlobalBatches::cardinality() const {
  return std::visit([](const auto& data) { return data.cardinality(); }, data_);
}

GlobalBatches::Reader::Reader(const GlobalBatches& batches, std::uint64_t seed)
    : iterator_(std::visit(
          [seed](const auto& data) -> decltype(iterator_) {
            return data.iterator({.seed = seed, .order = data::Order::kInOrder});
          },
          batches.data_)) {}

std::optional<ModelBatch> GlobalBatches::Reader::next() {
  return std::visit(
      [](auto& iterator) -> std::optional<ModelBatch> {
        const auto batch = iterator.next();
        if (!batch) return std::nullopt;
        return to_model_batch(*batch);
      },
      iterator_);
}

}  // namespace brigade::train::internal
