#pragma once

#include <vector>

#include "brigade/cluster/membership.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/launch/file_descriptor.h"

namespace brigade::launch {

/// News of lost members, from the rendezvous server's threads to the launcher's loop, which waits
/// on a descriptor.
///
/// Thread-safety: `put` from any thread; the rest from one.
class LossMailbox {
 public:
  LossMailbox();

  void put(const cluster::LostMember& lost);
  /// Readable while there is news.
  int descriptor() const { return event_.number(); }
  std::vector<cluster::LostMember> take();
  void clear() { take(); }

 private:
  const FileDescriptor event_;
  concurrency::Mutex mutex_;
  std::vector<cluster::LostMember> news_ BRIGADE_GUARDED_BY(mutex_);
};

}  // namespace brigade::launch
