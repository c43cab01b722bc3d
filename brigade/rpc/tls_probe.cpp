#include "brigade/rpc/tls_probe.h"

#include <netdb.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "brigade/base/error.h"
#include "brigade/base/handles.h"
#include "brigade/rpc/endpoint.h"

namespace brigade::rpc {
namespace {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

using Context = base::Handle<SSL_CTX, SSL_CTX_free>;
using TlsConnection = base::Handle<SSL, SSL_free>;
using Certificate = base::Handle<X509, X509_free>;
using Key = base::Handle<EVP_PKEY, EVP_PKEY_free>;
using Memory = base::Handle<BIO, BIO_free_all>;

void check(bool done) {
  if (!done) throw Error(ErrorCode::kInternal, "libssl takes no certificate of a cluster key.");
}

Memory memory_of(const std::string& text) {
  return Memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Certificate certificate_of(const std::string& text) {
  return Certificate(PEM_read_bio_X509(memory_of(text).get(), nullptr, nullptr, nullptr));
}

Context context_of(const cluster::TlsIdentity& identity) {
  Context context(SSL_CTX_new(TLS_client_method()));
  const Certificate authority = certificate_of(identity.authority);
  const Certificate own = certificate_of(identity.certificate);
  const Key key(
      PEM_read_bio_PrivateKey(memory_of(identity.private_key).get(), nullptr, nullptr, nullptr));
  check(context && authority && own && key);
  check(X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority.get()) == 1 &&
        SSL_CTX_use_certificate(context.get(), own.get()) == 1 &&
        SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  return context;
}

/// Whether the socket becomes ready for `events` before the deadline.
bool becomes(const base::FileDescriptor& socket, short events, TimePoint deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  pollfd polled = {socket.number(), events, 0};
  const int wait = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  return ::poll(&polled, 1, wait) == 1;
}

/// The socket is not open if there is no answer.
base::FileDescriptor connect_to(const cluster::Address& address, TimePoint deadline) {
  const auto target = cluster::parse_address(connect_text(address));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(target.port);
  if (getaddrinfo(target.host.c_str(), port.c_str(), &hints, &found) != 0) return {};
  const base::Handle<addrinfo, freeaddrinfo> owner(found);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    base::FileDescriptor socket(
        ::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int result = ::connect(socket.number(), each->ai_addr, each->ai_addrlen);
    if (result != 0 && (errno != EINPROGRESS || !becomes(socket, POLLOUT, deadline))) continue;
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return socket;
  }
  return {};
}

/// libssl's own socket writes can raise SIGPIPE, so libssl works on memory buffers and this class
/// sends and receives.
class Handshake {
 public:
  Handshake(SSL_CTX& context, const base::FileDescriptor& socket, TimePoint deadline)
      : connection_(SSL_new(&context)), socket_(socket), deadline_(deadline) {
    Memory in(BIO_new(BIO_s_mem())), out(BIO_new(BIO_s_mem()));
    check(connection_ && in && out && SSL_set1_host(connection_.get(), cluster::kTlsName) == 1);
    in_ = in.get();
    out_ = out.get();
    SSL_set_bio(connection_.get(), in.release(), out.release());
  }

  TlsVerdict run() {
    for (;;) {
      ERR_clear_error();
      const int result = SSL_connect(connection_.get());
      const int error = SSL_get_error(connection_.get(), result);
      const bool is_sent = send_what_was_said();
      if (result == 1) return TlsVerdict::kSameKey;
      if (error == SSL_ERROR_SSL) return TlsVerdict::kRefused;
      if (error != SSL_ERROR_WANT_READ || !is_sent || !receive()) return TlsVerdict::kUnknown;
    }
  }

 private:
  bool send_what_was_said() {
    std::array<char, 4096> bytes{};
    for (;;) {
      const int count = BIO_read(out_, bytes.data(), static_cast<int>(bytes.size()));
      if (count <= 0) return true;
      const auto size = static_cast<std::size_t>(count);
      // A handshake fits into the socket's send buffer.
      if (::send(socket_.number(), bytes.data(), size, MSG_NOSIGNAL) != count) return false;
    }
  }

  bool receive() {
    if (!becomes(socket_, POLLIN, deadline_)) return false;
    std::array<char, 4096> bytes{};
    const ssize_t count = ::recv(socket_.number(), bytes.data(), bytes.size(), 0);
    return count > 0 && BIO_write(in_, bytes.data(), static_cast<int>(count)) == count;
  }

  const TlsConnection connection_;
  BIO* in_ = nullptr;  // the connection's, as is the next
  BIO* out_ = nullptr;
  const base::FileDescriptor& socket_;
  const TimePoint deadline_;
};

}  // namespace

TlsVerdict probe_tls(const cluster::Address& address, const cluster::TlsIdentity& identity,
                     std::chrono::milliseconds timeout) {
  const TimePoint deadline = Clock::now() + timeout;
  const Context context = context_of(identity);
  const base::FileDescriptor socket = connect_to(address, deadline);
  if (!socket.is_open()) return TlsVerdict::kUnknown;
  const TlsVerdict verdict = Handshake(*context, socket, deadline).run();
  ERR_clear_error();
  return verdict;
}

}  // namespace brigade::rpc
