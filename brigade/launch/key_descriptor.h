#pragma once

#include <string>

#include "brigade/cluster/cluster_key.h"
#include "brigade/launch/file_descriptor.h"

namespace brigade::launch {

/// The descriptor under which a launched process inherits its cluster key. It has two digits,
/// because shell scripts use descriptors of one digit, and is below those that shells reserve.
inline constexpr int kKeyDescriptor = 19;

/// The path of that descriptor: the value of BRIGADE_CLUSTER_KEY_FILE in such a process.
std::string key_descriptor_path();

/// Writes the key's text to an anonymous file in memory. The file cannot be changed and goes away
/// with its last descriptor. Every process that inherits the descriptor may read it any number of
/// times; other users may not. Throws kResourceExhausted.
FileDescriptor make_key_descriptor(const cluster::ClusterKey& key);

}  // namespace brigade::launch
