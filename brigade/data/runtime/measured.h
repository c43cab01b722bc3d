#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/data/core/forwarding_iterator.h"
#include "brigade/data/runtime/stages.h"

namespace brigade::data::internal {

/// Counts the elements of a step and measures the time in its `next()`: of every call if calls are
/// long, of one in a few dozen if they are short, so that measuring costs little.
template <class T>
class MeasuredIterator final : public ForwardingIterator<T> {
 public:
  MeasuredIterator(std::unique_ptr<IteratorBase<T>> base, std::shared_ptr<Stages> stages,
                   const std::string& path)
      : ForwardingIterator<T>(std::move(base)),
        stages_(std::move(stages)),
        stage_(stages_->find_or_add(path)) {}

  std::optional<T> next() override {
    if (++calls_ < period_) return counted(this->base_->next());
    const auto begin = std::chrono::steady_clock::now();
    auto element = this->base_->next();
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
    stage_.counters.inclusive.add(took * static_cast<std::int64_t>(calls_));
    calls_ = 0;
    period_ = took < kShort ? kPeriod : 1;
    return counted(std::move(element));
  }

 private:
  std::optional<T> counted(std::optional<T> element) {
    if (element) stage_.counters.elements.add(1);
    return element;
  }

  static constexpr std::chrono::microseconds kShort{10};
  static constexpr std::uint64_t kPeriod = 61;  // prime: no multiple of a batch or a chunk

  const std::shared_ptr<Stages> stages_;
  Stage& stage_;
  std::uint64_t calls_ = 0;  // since the last one that was timed
  std::uint64_t period_ = 1;
};

/// Wraps `base`, the step at `path`, in a `MeasuredIterator` if all steps are measured.
template <class T>
std::unique_ptr<IteratorBase<T>> measured(std::unique_ptr<IteratorBase<T>> base,
                                          const std::shared_ptr<Stages>& stages,
                                          const std::string& path) {
  if (!stages || !stages->counts_all()) return base;
  return std::make_unique<MeasuredIterator<T>>(std::move(base), stages, path);
}

}  // namespace brigade::data::internal
