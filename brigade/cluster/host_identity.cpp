#include "brigade/cluster/host_identity.h"

#include <unistd.h>

#include <array>
#include <fstream>

#include "brigade/base/environment.h"
#include "brigade/base/strings.h"

namespace brigade::cluster {

namespace {

/// "pid:[4026531836]": the number is the namespace's among those of this kernel.
std::string own_namespace(const char* kind) {
  std::array<char, 64> text{};
  const std::string path = base::str_cat("/proc/thread-self/ns/", kind);
  const ssize_t size = ::readlink(path.c_str(), text.data(), text.size());
  return size < 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(size));
}

std::string running_kernel() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  if (std::getline(file, boot) && !boot.empty()) return boot;
  return base::str_cat("host ", base::host_name());
}

}  // namespace

HostIdentity this_host_identity() {
  return {.kernel = running_kernel(),
          .processes = own_namespace("pid"),
          .network = own_namespace("net")};
}

bool same_process_namespace(const HostIdentity& one, const HostIdentity& other) {
  return one.kernel == other.kernel && one.processes == other.processes;
}

bool same_network_namespace(const HostIdentity& one, const HostIdentity& other) {
  return one.kernel == other.kernel && one.network == other.network;
}

}  // namespace brigade::cluster
