#include "brigade/base/fork_detector.h"

#include <sys/mman.h>
#include <unistd.h>

namespace brigade::base {
namespace {

/// A page of its own, which the kernel clears in children; null if it does not.
int* make_mark() {
  void* const page =
      ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  if (::madvise(page, sizeof(int), MADV_WIPEONFORK) != 0) {
    ::munmap(page, sizeof(int));
    return nullptr;
  }
  auto* const mark = static_cast<int*>(page);
  *mark = 1;
  return mark;
}

}  // namespace

ForkDetector::ForkDetector() : process_(::getpid()), mark_(make_mark()) {}

ForkDetector::~ForkDetector() {
  if (mark_ != nullptr) ::munmap(const_cast<int*>(mark_), sizeof(int));
}

bool ForkDetector::is_other_process() const {
  return ::getpid() != process_;
}

}  // namespace brigade::base
