#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::summary {

struct EventQueueOptions {
  std::size_t events = 1000;
  std::size_t bytes = 64 << 20;
  std::chrono::milliseconds hold{2000};  ///< The maximum time that an event may stay in the queue.
  std::chrono::milliseconds patience{60'000};
};

/// The queue between the threads that add events and the one that writes them. The writer wakes up
/// when an event has waited long enough, the queue is half full, or a thread waits for a flush. For
/// `EventFileWriter`.
///
/// Thread-safety: any number of threads add; one thread takes.
class EventQueue {
 public:
  explicit EventQueue(EventQueueOptions options) : options_(options) {}

  /// Adds an encoded event; waits while the queue is full. Throws the writer's failure if there is
  /// one, kDeadlineExceeded if the queue stays full beyond the patience, kFailedPrecondition if
  /// closed.
  void push(std::string event);
  /// Returns once everything pushed before is written. Throws as `push` does.
  void wait_until_written();
  /// Closes the queue; the writer writes the remaining events. May be repeated.
  void close();
  /// The writer's failure, if it has not been thrown or returned yet.
  std::optional<Error> take_unseen_failure();

  struct Batch {
    std::vector<std::string> events;
    std::uint64_t end = 0;  // the number of events pushed up to the last of these
    bool is_last = false;   // the queue is closed and holds no more
  };
  /// For the writer: waits until there is work, and takes all events.
  Batch take();
  /// For the writer: the batch is in the file.
  void mark_written(const Batch& batch);
  /// For the writer, before it ends: nothing can be written anymore.
  void fail(const Error& error);

 private:
  bool is_full() const BRIGADE_REQUIRES(mutex_);
  bool has_work() const BRIGADE_REQUIRES(mutex_);
  void throw_failure() BRIGADE_REQUIRES(mutex_);

  const EventQueueOptions options_;
  concurrency::Mutex mutex_;
  concurrency::Condition space_available_;  // also: failed, closed
  concurrency::Condition work_available_;
  concurrency::Condition written_changed_;  // also: failed
  std::vector<std::string> events_ BRIGADE_GUARDED_BY(mutex_);
  std::size_t bytes_ BRIGADE_GUARDED_BY(mutex_) = 0;      // of events_
  std::uint64_t pushed_ BRIGADE_GUARDED_BY(mutex_) = 0;   // events ever
  std::uint64_t written_ BRIGADE_GUARDED_BY(mutex_) = 0;  // of these
  std::uint64_t flush_target_ BRIGADE_GUARDED_BY(mutex_) =
      0;  // a thread waits until this many are written
  std::chrono::steady_clock::time_point due_ BRIGADE_GUARDED_BY(mutex_);  // of events_' first
  bool is_closed_ BRIGADE_GUARDED_BY(mutex_) = false;
  bool is_failure_seen_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::optional<Error> failure_ BRIGADE_GUARDED_BY(mutex_);
};

}  // namespace brigade::summary
