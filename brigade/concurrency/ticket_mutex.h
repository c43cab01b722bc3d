#pragma once

#include <cstdint>

#include "brigade/concurrency/mutex.h"

namespace brigade::concurrency {

/// A mutex that is taken in the order of tickets: what several threads do under it follows from the
/// order in which tickets were drawn, not from which thread is faster. Draw the tickets of several
/// such mutexes under one lock, and all see the same order.
///
///   std::uint64_t ticket = mutex.draw();          // decides the order
///   const TicketMutex::Hold hold(mutex, ticket);  // waits for all earlier tickets
///
/// Every ticket must be held once, by one thread, or all later ones wait forever; whoever draws
/// tickets and then fails still makes and destroys its Hold.
///
/// Thread-safety: all functions from any thread.
class TicketMutex {
 public:
  TicketMutex() = default;
  TicketMutex(const TicketMutex&) = delete;
  TicketMutex& operator=(const TicketMutex&) = delete;

  /// Returns the next ticket, from 0.
  std::uint64_t draw() BRIGADE_EXCLUDES(mutex_);

  class Hold {
   public:
    /// Waits until every earlier ticket was held and released. What is done under it must end by
    /// itself: the wait has no deadline.
    Hold(TicketMutex& mutex, std::uint64_t ticket);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    TicketMutex& mutex_;
  };

 private:
  Mutex mutex_;
  Condition released_;
  std::uint64_t drawn_ BRIGADE_GUARDED_BY(mutex_) = 0;
  std::uint64_t serving_ BRIGADE_GUARDED_BY(mutex_) = 0;
};

}  // namespace brigade::concurrency
