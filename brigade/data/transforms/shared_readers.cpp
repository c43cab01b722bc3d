#include "brigade/data/transforms/shared_readers.h"

#include <algorithm>
#include <limits>

#include "brigade/base/log.h"
#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/error_context.h"

namespace brigade::data {

namespace internal {
namespace {

constexpr std::uint64_t kGone = std::numeric_limits<std::uint64_t>::max();
// Waits poll: a callback of a token could not wake a condition without a lock that it must not
// take.
constexpr std::chrono::milliseconds kPoll{20};

bool is_finished(const SharedPass& pass) {
  return std::all_of(pass.positions.begin(), pass.positions.end(),
                     [](std::uint64_t position) { return position == kGone; });
}

}  // namespace

ElementFailure failure_of(const std::exception_ptr& error) {
  try {
    try {
      std::rethrow_exception(error);
    } catch (...) {
      rethrow_with_context("");
    }
  } catch (const Error& known) {
    return {known.code(), known.what()};
  }
}

std::uint64_t SharedPass::slowest() const {
  std::uint64_t least = end;
  for (const std::uint64_t position : positions) least = std::min(least, position);
  return least;
}

void SharedPass::drop_elements_read_by_all() {
  for (const std::uint64_t least = slowest(); begin < least; ++begin) elements.pop_front();
}

ReaderGroup::ReaderGroup(SharedReadersOptions options) : options_(std::move(options)) {
  check_argument(options_.readers >= 1, "SharedReaders: readers is ", options_.readers,
                 "; there must be at least one.");
  check_argument(options_.max_ahead >= 1, "SharedReaders: max_ahead is ", options_.max_ahead,
                 "; a reader must be allowed to be at least 1 element ahead.");
  readers_.resize(static_cast<std::size_t>(options_.readers));
}

std::shared_ptr<SharedPass> ReaderGroup::open(const SharedPassKey& key, int reader) {
  const auto index = static_cast<std::size_t>(reader);
  concurrency::MutexLock lock(mutex_);
  if (readers_[index].has_ended) return nullptr;
  Openings& openings = openings_[key];
  openings.count.resize(readers_.size());
  const std::size_t opening = openings.count[index]++;
  if (openings.passes.size() > opening) return openings.passes[opening];
  auto pass = std::make_shared<SharedPass>();
  pass->dataset = key.dataset;
  for (const ReaderState& each : readers_) pass->positions.push_back(each.has_ended ? kGone : 0);
  openings.passes.push_back(pass);
  return pass;
}

std::optional<SharedElement> ReaderGroup::next(
    SharedPass& pass, int reader, const std::optional<concurrency::CancelToken>& cancel,
    const Read& read) {
  for (;;) {
    Step step = Step::kTake;
    {
      concurrency::MutexLock lock(mutex_);
      step = wait_for_step(pass, reader, cancel);
      if (step == Step::kTake) return take(pass, reader);
      if (step == Step::kRead) {
        pass.is_being_read = true;
        ++readers_[static_cast<std::size_t>(reader)].reads;
      }
    }
    if (step == Step::kEnd) return SharedElement();
    if (step == Step::kAloneAfterWait) {
      base::log_warning(
          "The readers of shared datasets wait for each other, because they read different ones or "
          "in different orders: reader ",
          reader, " continues alone, and its elements are made once more.");
    }
    if (step != Step::kRead) return std::nullopt;
    std::optional<SharedElement> element;
    std::exception_ptr failure;
    try {
      element = read();
    } catch (...) {
      failure = std::current_exception();
    }
    {
      concurrency::MutexLock lock(mutex_);
      pass.is_being_read = false;
      --readers_[static_cast<std::size_t>(reader)].reads;
      if (element) add(pass, std::move(*element));
      changed_.notify_all();
    }
    if (failure) std::rethrow_exception(failure);
  }
}

ReaderGroup::Step ReaderGroup::wait_for_step(
    SharedPass& pass, int reader, const std::optional<concurrency::CancelToken>& cancel) {
  using Clock = std::chrono::steady_clock;
  ReaderState& self = readers_[static_cast<std::size_t>(reader)];
  auto waiting_since = Clock::now();
  std::uint64_t seen = moves_;
  for (;;) {
    throw_if_cancelled(options_.cancel);
    throw_if_cancelled(cancel);
    if (const auto step = possible_step(pass, reader)) return *step;
    const auto now = Clock::now();
    if (std::exchange(seen, moves_) != moves_) waiting_since = now;
    const bool waits_for_reader = !pass.is_being_read;
    if (waits_for_reader && now - waiting_since >= options_.patience && all_others_wait(reader)) {
      ++moves_;
      return Step::kAloneAfterWait;
    }
    self.waits += waits_for_reader ? 1 : 0;
    changed_.wait_until(mutex_, now + kPoll);
    self.waits -= waits_for_reader ? 1 : 0;
  }
}

std::optional<ReaderGroup::Step> ReaderGroup::possible_step(const SharedPass& pass,
                                                            int reader) const {
  const std::uint64_t position = pass.positions[static_cast<std::size_t>(reader)];
  if (position == kGone) return Step::kAlone;
  if (position < pass.end) return Step::kTake;
  if (pass.is_at_end) return Step::kEnd;
  const std::uint64_t kept = pass.end - pass.slowest();
  if (!pass.is_being_read && kept < static_cast<std::uint64_t>(options_.max_ahead))
    return Step::kRead;
  return std::nullopt;
}

bool ReaderGroup::all_others_wait(int reader) const {
  for (std::size_t other = 0; other < readers_.size(); ++other) {
    const ReaderState& state = readers_[other];
    if (static_cast<int>(other) == reader || state.has_ended) continue;
    if (state.waits == 0 || state.reads > 0) return false;
  }
  return true;
}

SharedElement ReaderGroup::take(SharedPass& pass, int reader) {
  std::uint64_t& position = pass.positions[static_cast<std::size_t>(reader)];
  SharedElement element = pass.elements[position - pass.begin];
  ++position;
  ++moves_;
  const std::uint64_t before = pass.begin;
  pass.drop_elements_read_by_all();
  if (pass.begin != before) changed_.notify_all();
  return element;
}

void ReaderGroup::add(SharedPass& pass, SharedElement element) {
  ++moves_;
  if (element.is_end()) {
    pass.is_at_end = true;
    return;
  }
  ++elements_read_;
  ++pass.end;
  pass.elements.push_back(std::move(element));
}

void ReaderGroup::leave(const std::shared_ptr<SharedPass>& pass, int reader) {
  std::vector<std::shared_ptr<SharedPass>> finished;
  concurrency::MutexLock lock(mutex_);
  remove_reader(*pass, reader);
  finished = take_finished();
}

void ReaderGroup::end(int reader) {
  std::vector<std::shared_ptr<SharedPass>> finished;
  concurrency::MutexLock lock(mutex_);
  readers_[static_cast<std::size_t>(reader)].has_ended = true;
  for (auto& [key, openings] : openings_) {
    for (const auto& pass : openings.passes)
      if (pass) remove_reader(*pass, reader);
  }
  finished = take_finished();
}

void ReaderGroup::remove_reader(SharedPass& pass, int reader) {
  pass.positions[static_cast<std::size_t>(reader)] = kGone;
  pass.drop_elements_read_by_all();
  ++moves_;
  changed_.notify_all();
}

std::vector<std::shared_ptr<SharedPass>> ReaderGroup::take_finished() {
  std::vector<std::shared_ptr<SharedPass>> finished;
  for (auto& [key, openings] : openings_) {
    for (auto& pass : openings.passes)
      if (pass && is_finished(*pass)) finished.push_back(std::exchange(pass, nullptr));
  }
  return finished;
}

std::int64_t ReaderGroup::elements_read() const {
  concurrency::MutexLock lock(mutex_);
  return elements_read_;
}

}  // namespace internal

void SharedReaders::check_reader(int reader) const {
  const int readers = group_->options().readers;
  if (reader >= 0 && reader < readers) return;
  throw Error(ErrorCode::kOutOfRange, "SharedReaders: there is no reader ", reader, "; there are ",
              readers, ", from 0 on.");
}

}  // namespace brigade::data
