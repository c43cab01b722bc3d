#include "brigade/concurrency/ticket_mutex.h"

namespace brigade::concurrency {

std::uint64_t TicketMutex::draw() {
  const MutexLock lock(mutex_);
  return drawn_++;
}

TicketMutex::Hold::Hold(TicketMutex& mutex, std::uint64_t ticket) : mutex_(mutex) {
  const MutexLock lock(mutex_.mutex_);
  while (mutex_.serving_ != ticket) mutex_.released_.wait(mutex_.mutex_);
}

TicketMutex::Hold::~Hold() {
  const MutexLock lock(mutex_.mutex_);
  ++mutex_.serving_;
  mutex_.released_.notify_all();
}

}  // namespace brigade::concurrency
