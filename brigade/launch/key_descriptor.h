#pragma once

#include <string>

#include "brigade/cluster/cluster_key.h"
#include "brigade/launch/file_descriptor.h"

namespace brigade::launch {

/// The descriptor under which a process that was launched inherits its cluster key. Two digits,
/// since shell scripts name descriptors of one; below those that shells take for themselves.
inline constexpr int kKeyDescriptor = 19;

/// What BRIGADE_CLUSTER_KEY_FILE says in such a process: the path of that descriptor.
std::string key_descriptor_path();

/// The key's text in a file without a name, which is in memory alone, cannot be changed, and is
/// gone with the last descriptor of it. Whoever inherits the descriptor may read it, as often as he
/// likes; other users may not. Throws kResourceExhausted.
FileDescriptor make_key_descriptor(const cluster::ClusterKey& key);

}  // namespace brigade::launch
