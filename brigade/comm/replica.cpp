#include "brigade/comm/replica.h"

namespace brigade::comm {

const Replica* current_replica() {
  return kReplicaSlot.get();
}

}  // namespace brigade::comm
