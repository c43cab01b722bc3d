#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "brigade/data/core/iterator_base.h"

namespace brigade::data::internal {

/// The base class of iterators with the positions of another: only `next()` differs.
template <class Out, class In = Out>
class ForwardingIterator : public IteratorBase<Out> {
 public:
  std::uint64_t skip(std::uint64_t count) final { return base_->skip(count); }
  io::StateTree save() const final { return base_->save(); }
  void restore(const io::StateTree& state) final { base_->restore(state); }
  bool keeps_position_when_cancelled() const final {
    return base_->keeps_position_when_cancelled();
  }

 protected:
  explicit ForwardingIterator(std::unique_ptr<IteratorBase<In>> base) : base_(std::move(base)) {}

  const std::unique_ptr<IteratorBase<In>> base_;
};

}  // namespace brigade::data::internal
