#include "brigade/data/runtime/workers.h"

#include <algorithm>

namespace brigade::data {

using concurrency::MutexLock;

void Workers::set_count(std::size_t count) {
  const std::size_t before = count_.exchange(count);
  for (const Crew& crew : crews_) {
    const std::size_t end = std::min(crew.first + crew.size, count);
    for (std::size_t number = std::max(crew.first, before); number < end; ++number) {
      crew.threads->submit([this, first = crew.first, size = crew.size] { work_in(first, size); });
    }
  }
  const std::size_t hired = crews_.empty() ? 0 : crews_.back().first + crews_.back().size;
  if (count <= hired) return;
  const std::size_t size = count - hired;
  {
    MutexLock lock(mutex_);
    is_running_.resize(count, false);
    is_awaited_.resize(count, false);
  }
  crews_.push_back({hired, size,
                    std::make_unique<concurrency::ThreadPool>(
                        concurrency::ThreadPoolOptions{.threads = size, .name = name_})});
  for (std::size_t i = 0; i < size; ++i) {
    crews_.back().threads->submit([this, hired, size] { work_in(hired, size); });
  }
}

std::size_t Workers::take_number(std::size_t first, std::size_t size) {
  MutexLock lock(mutex_);
  for (std::size_t number = first; number < first + size; ++number) {
    if (is_running_[number] || !wants(number)) continue;
    is_running_[number] = true;
    return number;
  }
  for (std::size_t number = first; number < first + size; ++number) {
    if (wants(number)) is_awaited_[number] = true;
  }
  return first + size;
}

bool Workers::must_stay(std::size_t number) {
  MutexLock lock(mutex_);
  is_running_[number] = is_awaited_[number] && wants(number);
  is_awaited_[number] = false;
  return is_running_[number];
}

void Workers::work_in(std::size_t first, std::size_t size) {
  // Whoever was about to leave and stayed has the number this task was meant for: it takes another,
  // or none. Then whoever leaves all the same begins again, so that no number is without somebody.
  const std::size_t number = take_number(first, size);
  if (number == first + size) return;
  do {
    run_(*this, number);
  } while (must_stay(number));
}

}  // namespace brigade::data
