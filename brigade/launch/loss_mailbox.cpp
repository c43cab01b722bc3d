#include "brigade/launch/loss_mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace brigade::launch {

LossMailbox::LossMailbox() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void LossMailbox::put(const cluster::LostMember& lost) {
  const concurrency::MutexLock lock(mutex_);
  news_.push_back(lost);
  const std::uint64_t one = 1;
  // It can only fail where the counter is full, and then the reader is awake.
  [[maybe_unused]] const ssize_t written = ::write(event_.number(), &one, sizeof(one));
}

std::vector<cluster::LostMember> LossMailbox::take() {
  const concurrency::MutexLock lock(mutex_);
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t read = ::read(event_.number(), &count, sizeof(count));
  return std::exchange(news_, {});
}

}  // namespace brigade::launch
