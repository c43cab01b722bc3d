#include "brigade/rpc/caller_segments.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::rpc {
namespace {

bool is_same(const base::SegmentHandle& one, const base::SegmentHandle& other) {
  return one.pid == other.pid && one.descriptor == other.descriptor && one.nonce == other.nonce;
}

}  // namespace

std::shared_ptr<base::SharedSegment> CallerSegments::open(const base::SegmentHandle& handle,
                                                          std::size_t bytes) {
  if (auto known = find(handle, bytes)) return known;
  if (bytes > most_bytes_)
    throw Error(ErrorCode::kUnavailable, "A caller's shared memory has ", base::human_bytes(bytes),
                ", and that of all together has ", base::human_bytes(most_bytes_),
                " at most (max_buffered_bytes).");
  auto part = budget_.take(bytes);
  if (!part) {
    forget_unused(std::chrono::steady_clock::now());
    part = budget_.take(bytes);
  }
  if (!part)
    throw Error(ErrorCode::kResourceExhausted, "There is no room for ", base::human_bytes(bytes),
                " of a caller's shared memory beside that of the others.");
  auto segment = std::make_shared<base::SharedSegment>(base::SharedSegment::open(handle, bytes));
  const concurrency::MutexLock lock(mutex_);
  entries_.push_back({.handle = handle,
                      .part = std::move(*part),
                      .segment = segment,
                      .opened = std::chrono::steady_clock::now()});
  return segment;
}

std::shared_ptr<base::SharedSegment> CallerSegments::find(const base::SegmentHandle& handle,
                                                          std::size_t bytes) {
  const concurrency::MutexLock lock(mutex_);
  const auto found = std::ranges::find_if(entries_, [&](const Entry& each) {
    return is_same(each.handle, handle) && each.segment->size() == bytes;
  });
  if (found == entries_.end()) return nullptr;
  found->opened = std::chrono::steady_clock::now();
  return found->segment;
}

void CallerSegments::forget_unused(Time time) {
  Entries unused;  // unmapped without the lock
  const concurrency::MutexLock lock(mutex_);
  const auto is_used = [&](const Entry& each) {
    return each.segment.use_count() > 1 || each.opened > time;
  };
  const auto begin = std::stable_partition(entries_.begin(), entries_.end(), is_used);
  std::move(begin, entries_.end(), std::back_inserter(unused));
  entries_.erase(begin, entries_.end());
}

std::size_t CallerSegments::size() const {
  const concurrency::MutexLock lock(mutex_);
  return entries_.size();
}

}  // namespace brigade::rpc
