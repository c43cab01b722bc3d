#include "brigade/device/random_scope.h"

#include "brigade/device/random_substitution.h"

namespace brigade::device {

RandomScope::RandomScope(ReplicaGenerator& generator)
    : scope_(kGeneratorSlot, &generator), key_(kRandomKey) {}

}  // namespace brigade::device
