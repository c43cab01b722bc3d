#include "brigade/distribute/replica_stream.h"

namespace brigade::distribute {

ReplicaStream::ReplicaStream(const device::Device& device) : device_(device.torch_device) {
  if (!device_.is_cpu()) stream_ = device::make_stream(device);
}

void ReplicaStream::fork() {
  forked_.record(device_);
}

void ReplicaStream::join() const {
  finished_.wait(device_);
}

ReplicaStream::Scope::Scope(ReplicaStream& stream) : stream_(stream) {
  if (!stream.stream_) return;
  current_.emplace(*stream.stream_);
  stream.forked_.wait(stream.device_);
}

ReplicaStream::Scope::~Scope() {
  if (stream_.stream_) stream_.finished_.record(stream_.device_);
}

}  // namespace brigade::distribute
