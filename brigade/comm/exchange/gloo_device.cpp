#include "brigade/comm/exchange/gloo_device.h"

#include <fcntl.h>
#include <gloo/transport/tcp/device.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "brigade/base/environment.h"
#include "brigade/base/error.h"
#include "brigade/base/handles.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/host_lookup.h"

// libtorch exports this; Debian's headers of Gloo do not declare it. (c10d calls it where the
// environment has GLOO_DEVICE_TRANSPORT=TCP_TLS and three paths; calling it spares changing the
// environment of a program that has threads.)
namespace gloo::transport::tcp::tls {
std::shared_ptr<gloo::transport::Device> CreateDevice(const gloo::transport::tcp::attr& attributes,
                                                      std::string private_key,
                                                      std::string certificate,
                                                      std::string authority_file,
                                                      std::string authority_folder);
}  // namespace gloo::transport::tcp::tls

namespace brigade::comm {

namespace {

using gloo::transport::tcp::attr;

/// The address at which `elsewhere` reaches this process. If both hosts have the same name, it is
/// the source address of the route to the rendezvous, which all members have reached.
std::optional<std::string> own_address(const cluster::Membership& membership,
                                       const cluster::Member& elsewhere) {
  const cluster::Member& self = membership.self();
  std::optional<std::string> address;
  if (elsewhere.host != self.host) address = cluster::source_address(elsewhere.host);
  if (!address && !self.address.empty()) address = self.address;
  if (!address && !elsewhere.address.empty()) address = cluster::source_address(elsewhere.address);
  // An address that nobody uses (RFC 5737) gives the default route.
  if (!address) address = cluster::source_address("192.0.2.1");
  return address;
}

attr where_to_listen(const cluster::Membership& membership) {
  attr attributes;
  const cluster::Member* const elsewhere = cluster::first_on_another_network(membership);
  if (!elsewhere) {
    attributes.iface = "lo";
    return attributes;
  }
  if (const auto interface = base::environment("GLOO_SOCKET_IFNAME")) {
    attributes.iface = *interface;
    return attributes;
  }
  const auto address = own_address(membership, *elsewhere);
  if (!address) {
    throw Error(ErrorCode::kUnavailable,
                base::str_cat("This host has no route to ", *elsewhere,
                              "; set GLOO_SOCKET_IFNAME to the interface to use."));
  }
  attributes.hostname = *address;
  return attributes;
}

/// A temporary folder that only this user may access, for secrets that a library takes as files. It
/// is removed with this object.
class PrivateFolder {
 public:
  /// Throws kPermissionDenied if the folder cannot be created.
  PrivateFolder() {
    std::error_code ignored;
    path_ = (std::filesystem::temp_directory_path(ignored) / "brigade-tls-XXXXXX").string();
    if (!mkdtemp(path_.data())) {  // made with mode 0700
      throw Error(ErrorCode::kPermissionDenied,
                  base::str_cat("No private folder can be made at ", path_, ": ",
                                std::strerror(errno), "."));
    }
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  ~PrivateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  /// Writes a file that only this user may read; returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    const std::string file = path_ + "/" + name;
    const base::FileDescriptor descriptor(
        ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    const bool is_written =
        descriptor.is_open() && ::write(descriptor.number(), content.data(), content.size()) ==
                                    static_cast<ssize_t>(content.size());
    const int failure = errno;
    if (is_written) return file;
    throw Error(ErrorCode::kPermissionDenied,
                base::str_cat(file, " cannot be written: ", std::strerror(failure), "."));
  }

 private:
  std::string path_;
};

sigset_t pipe_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

}  // namespace

PipeSignalBlock::PipeSignalBlock() {
  const sigset_t set = pipe_signal();
  ::pthread_sigmask(SIG_BLOCK, &set, &former_);
}

PipeSignalBlock::~PipeSignalBlock() {
  // A signal that is pending in this thread was caused by Gloo too.
  const sigset_t set = pipe_signal();
  const timespec no_wait{};
  if (sigismember(&former_, SIGPIPE) == 0) ::sigtimedwait(&set, nullptr, &no_wait);
  ::pthread_sigmask(SIG_SETMASK, &former_, nullptr);
}

GlooDevice make_gloo_device(const cluster::Membership& membership,
                            const std::optional<cluster::ClusterKey>& key) {
  const cluster::Member* const elsewhere = cluster::first_on_another_network(membership);
  if (elsewhere && !key) {
    throw Error(ErrorCode::kPermissionDenied,
                base::str_cat("Processes on several hosts (this one on ", membership.self().host,
                              ", ", *elsewhere,
                              ") need a cluster key: make one with `brigade launch --new-key`, and "
                              "give it to all in BRIGADE_CLUSTER_KEY_FILE."));
  }
  const attr attributes = where_to_listen(membership);
  auto pipe_signal = std::make_unique<PipeSignalBlock>();  // the device starts a thread too
  if (!key) {
    return {.pipe_signal = std::move(pipe_signal),
            .device = gloo::transport::tcp::CreateDevice(attributes)};
  }
  const cluster::TlsIdentity identity = cluster::make_tls_identity(*key);
  auto folder = std::make_shared<PrivateFolder>();
  const std::string private_key = folder->write("key.pem", identity.private_key);
  const std::string certificate = folder->write("certificate.pem", identity.certificate);
  const std::string authority = folder->write("authority.pem", identity.authority);
  return {.pipe_signal = std::move(pipe_signal),
          .device = gloo::transport::tcp::tls::CreateDevice(attributes, private_key, certificate,
                                                            authority, ""),
          .identity = std::move(folder)};
}

}  // namespace brigade::comm
