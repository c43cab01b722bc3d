#include "brigade/rpc/service_host.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <utility>

#include "brigade/base/error.h"
#include "brigade/rpc/acceptor.h"
#include "brigade/rpc/channel.h"
#include "brigade/rpc/endpoint.h"

namespace brigade::rpc {
namespace {

// At the server's end, the time for the last messages to reach the clients. Connections that take
// longer are cut off.
constexpr std::chrono::milliseconds kFarewellTime{900};
// Calls in progress on one connection: far more than a client makes. Others wait in the client.
constexpr int kCallsOfAConnection = 256;

}  // namespace

class ServiceHost::Impl {
 public:
  Impl(grpc::Service& service, const ServiceHostOptions& options) : address_(options.address) {
    Listening listening = listen_on(listen_text(address_));
    address_.port = listening.port;
    start_grpc(service, options);
    acceptor_.emplace(AcceptorOptions{.opening = options.key ? Opening::kTls : Opening::kHttp2,
                                      .address = cluster::to_string(address_),
                                      .burst = AcceptorOptions().burst + 2 * options.clients,
                                      .per_second = AcceptorOptions().per_second +
                                                    static_cast<double>(options.clients) / 4},
                      std::move(listening.socket),
                      [this](base::FileDescriptor connection) { serve(std::move(connection)); });
  }

  ~Impl() {
    refuse_connections();
    shut_down();
  }

  const cluster::Address& address() const { return address_; }
  void refuse_connections() { acceptor_.reset(); }
  void shut_down() {
    if (std::exchange(is_shut_down_, true)) return;
    server_->Shutdown(std::chrono::system_clock::now() + kFarewellTime);
  }

 private:
  /// gRPC itself does not listen: the acceptor passes it the connections to serve.
  void start_grpc(grpc::Service& service, const ServiceHostOptions& options) {
    grpc::ServerBuilder builder;
    grpc_acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        make_server_credentials(options.key));
    builder.RegisterService(&service);
    builder.SetMaxReceiveMessageSize(options.max_message_bytes);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                               static_cast<int>(options.idle_timeout.count()));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsOfAConnection);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                               static_cast<int>(options.handshake_timeout.count()));
    server_ = builder.BuildAndStart();
    if (!server_) throw Error(ErrorCode::kInternal, "gRPC does not start a server.");
  }

  void serve(base::FileDescriptor connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = -1;
    parameters.fd = connection.release();
    grpc_acceptor_->HandleNewConnection(&parameters);
  }

  cluster::Address address_;
  bool is_shut_down_ = false;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> grpc_acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::optional<Acceptor> acceptor_;  // ends first, since it passes connections to the server
};

ServiceHost::ServiceHost(grpc::Service& service, const ServiceHostOptions& options)
    : impl_(std::make_unique<Impl>(service, options)) {}
ServiceHost::~ServiceHost() = default;
const cluster::Address& ServiceHost::address() const {
  return impl_->address();
}
void ServiceHost::refuse_connections() {
  impl_->refuse_connections();
}
void ServiceHost::shut_down() {
  impl_->shut_down();
}

}  // namespace brigade::rpc
