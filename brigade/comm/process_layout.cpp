#include "brigade/comm/process_layout.h"

#include <numeric>

namespace brigade::comm {

int ProcessLayout::num_replicas() const {
  return std::accumulate(replicas.begin(), replicas.end(), 0);
}

int ProcessLayout::first_replica() const {
  return std::accumulate(replicas.begin(), replicas.begin() + process, 0);
}

}  // namespace brigade::comm
