#pragma once

#include <string>
#include "brigade/base/handles.h"
#include "brigade/cluster/cluster_key.h"

namespace brigade::launch {

/// A pipe whose ends close at exec. Their numbers are 10 or more, so that they can be duplicated to
/// low numbers in a child without overwriting one another. Throws kResourceExhausted.
struct Pipe {
  base::FileDescriptor read;
  base::FileDescriptor write;
};
Pipe make_pipe();

/// Two connected sockets, with the same properties. Throws kResourceExhausted.
struct SocketPair {
  base::FileDescriptor own;
  base::FileDescriptor other;
};
SocketPair make_socket_pair();

/// Moves the descriptor to a number of 10 or more, with close-on-exec. Throws kResourceExhausted.
base::FileDescriptor with_high_number(base::FileDescriptor low);

/// Makes reads from it non-blocking.
void set_non_blocking(const base::FileDescriptor& descriptor);

/// The descriptor under which a launched process inherits its cluster key. It has two digits,
/// because shell scripts use descriptors of one digit, and is below those that shells reserve.
inline constexpr int kKeyDescriptor = 19;

/// The path of that descriptor: the value of BRIGADE_CLUSTER_KEY_FILE in such a process.
std::string key_descriptor_path();

/// Writes the key's text to an anonymous file in memory. The file cannot be changed and goes away
/// with its last descriptor. Every process that inherits the descriptor may read it any number of
/// times; other users may not. Throws kResourceExhausted.
base::FileDescriptor make_key_descriptor(const cluster::ClusterKey& key);

}  // namespace brigade::launch
