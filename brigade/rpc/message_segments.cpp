#include "brigade/rpc/message_segments.h"

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"

namespace brigade::rpc {
namespace {

// A call's, and those whose answers somebody still reads.
constexpr std::size_t kMostFree = 4;
constexpr std::size_t kGranularity = std::size_t{1} << 20;

/// With room for messages that are a little longer.
std::size_t size_for(std::size_t bytes) {
  const std::size_t wanted = bytes + bytes / 8 + 1;
  return (wanted + kGranularity - 1) / kGranularity * kGranularity;
}

}  // namespace

struct MessageSegments::Pool {
  explicit Pool(std::size_t most_bytes) : budget(most_bytes) { free.reserve(kMostFree); }

  std::unique_ptr<Loan> take(std::size_t bytes) BRIGADE_EXCLUDES(mutex) {
    std::vector<std::unique_ptr<Loan>> too_small;  // destroyed without the lock
    const concurrency::MutexLock lock(mutex);
    const auto found = std::ranges::find_if(
        free, [&](const auto& each) { return each->segment().size() >= bytes; });
    if (found == free.end()) {
      std::swap(free, too_small);
      free.reserve(kMostFree);
      return nullptr;
    }
    std::unique_ptr<Loan> loan = std::move(*found);
    free.erase(found);
    return loan;
  }

  void put(std::unique_ptr<Loan> loan) BRIGADE_EXCLUDES(mutex) {
    const concurrency::MutexLock lock(mutex);
    if (free.size() < kMostFree) free.push_back(std::move(loan));
  }

  Budget budget;  // first: the loans have parts of it
  concurrency::Mutex mutex;
  std::vector<std::unique_ptr<Loan>> free BRIGADE_GUARDED_BY(mutex);
};

MessageSegments::MessageSegments(std::size_t most_bytes)
    : pool_(std::make_shared<Pool>(most_bytes)) {}

std::unique_ptr<MessageSegments::Loan> MessageSegments::take(std::size_t bytes) {
  if (auto loan = pool_->take(bytes)) return loan;
  if (bytes > std::size_t{1} << 40) return nullptr;  // so that the size below does not overflow
  const std::size_t size = size_for(bytes);
  auto part = pool_->budget.take(size);
  if (!part) return nullptr;
  try {
    return std::unique_ptr<Loan>(new Loan(std::move(*part), base::SharedSegment::make(size)));
  } catch (const Error&) {
    return nullptr;
  }
}

std::shared_ptr<const void> MessageSegments::keep(std::unique_ptr<Loan> loan) {
  Loan* const segment = loan.release();
  // If this throws, the deleter has been called.
  return std::shared_ptr<Loan>(
      segment, [pool = pool_](Loan* each) { pool->put(std::unique_ptr<Loan>(each)); });
}

}  // namespace brigade::rpc
